// Quotas of desktops by their labels.
import { z } from 'zod'
import { selector } from './labels.ts'

/** Of one organisation. */
export const quotasMax = 32

export const quotaName = z
  .string()
  .regex(
    /^[a-z0-9](?:[a-z0-9._-]{0,62}[a-z0-9])?$/,
    'must be 1 to 64 lower-case letters, digits, `-`, `_` or `.`, and begin and end with a letter or digit',
  )

const maxDesktops = z.int().min(0).max(1_000_000_000)

export const setQuotaBody = z.strictObject({
  select: selector.describe('It counts the desktops whose labels match, such as `team=qa,env in (a,b)`'),
  max_desktops: maxDesktops.describe('How many of them there may be. Those that exist stay'),
})
export type SetQuotaBody = z.input<typeof setQuotaBody>

export const quotaJson = z
  .object({
    name: z.string(),
    select: z.string().describe('It counts the desktops whose labels match'),
    max_desktops: z.int().describe('How many of them there may be'),
    desktops: z.int().describe('How many there are now. There are more than the limit if it was lowered'),
  })
  .meta({ id: 'Quota', examples: [{ name: 'qa', select: 'team=qa', max_desktops: 20, desktops: 3 }] })
export type QuotaJson = z.infer<typeof quotaJson>

export const orgQuotasJson = z.object({ quotas: z.array(quotaJson).describe('By name') })
export type OrgQuotasJson = z.infer<typeof orgQuotasJson>

export const ownQuotasJson = z
  .object({
    max_desktops: z.int().describe('How many desktops the organisation may have; destroyed ones do not count'),
    desktops: z.int().describe('How many it has now'),
    quotas: z.array(quotaJson).describe('Limits of desktops with certain labels, by name'),
  })
  .meta({
    id: 'Quotas',
    examples: [
      {
        max_desktops: 500,
        desktops: 12,
        quotas: [{ name: 'qa', select: 'team=qa', max_desktops: 20, desktops: 3 }],
      },
    ],
  })
export type OwnQuotasJson = z.infer<typeof ownQuotasJson>

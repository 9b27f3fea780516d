// What a credential allows, and the keys that customers make for each other.
import { z } from 'zod'
import { listOf, printable } from './bounds.ts'
import { time } from './desktops.ts'
import { id } from './ids.ts'
import { selector } from './labels.ts'

/**
 * `see` reads desktops, operations, events and usage; `use` acts in an awake desktop and on its screen; `power` wakes and hibernates;
 * `admin` changes names, labels, webhooks and keys.
 */
export const rights = ['see', 'use', 'power', 'create', 'destroy', 'admin'] as const
export const right = z.enum(rights)
export type Right = z.infer<typeof right>

/** Valid keys that one organisation may have made. */
export const keysMax = 1_000
const keyMaxSecs = 315_360_000

const can = listOf(right, rights.length)
  .refine((given) => given.length > 0, `must be one or more of ${rights.join(', ')}`)
  .transform((given): Right[] => rights.filter((one) => given.includes(one)))
  .describe('What the key may do')
  .meta({ type: 'array', items: { type: 'string', enum: [...rights] }, minItems: 1, maxItems: rights.length })

export const createApiKeyBody = z
  .object({
    name: printable(100).describe('For people, in lists and in the log of events'),
    can,
    select: selector
      .nullish()
      .describe(
        'Only desktops whose labels match, such as `team=qa,run!=42,env in (a,b),owner,!old`; others do not exist for the key',
      ),
    desktop_id: id.nullish().describe('Only this desktop; others do not exist for the key'),
    expires_in_secs: z.int().min(1).max(keyMaxSecs).nullish().describe('By default it does not expire'),
  })
  .meta({
    id: 'CreateKeyBody',
    examples: [{ name: 'nightly tests', can: ['see', 'use', 'power'], select: 'team=qa', expires_in_secs: 86_400 }],
  })
export type CreateApiKeyBody = z.input<typeof createApiKeyBody>

/** What every list of keys shows. */
export const keyLimits = {
  can: z.array(right).describe('What it may do'),
  select: z.string().nullable().describe('The selector of its desktops; null: all'),
  desktop_id: id.nullable().describe('Its only desktop; null: not limited to one'),
  made_by: z
    .string()
    .nullable()
    .describe('The key or the subject of the access token that made it, such as `key:<id>`; null: an operator'),
  expires_at: time.nullable(),
}

const keyFields = {
  id,
  name: z.string(),
  ...keyLimits,
  created_at: time,
  last_used_at: time.nullable().describe('Within a minute'),
}
const example = {
  id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b82',
  name: 'nightly tests',
  can: ['see' as const, 'use' as const, 'power' as const],
  select: 'team=qa',
  desktop_id: null,
  made_by: 'key:01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b83',
  created_at: '2026-01-01T12:00:00.000Z',
  expires_at: '2026-01-02T12:00:00.000Z',
  last_used_at: null,
}
export const ownKeyJson = z.object(keyFields).meta({ id: 'Key', examples: [example] })
export type OwnKeyJson = z.infer<typeof ownKeyJson>

/** The only answer that contains the key itself. */
export const createdOwnKeyJson = z
  .object({ ...keyFields, api_key: z.string().describe('The key itself, which is shown only here') })
  .meta({
    id: 'CreatedKey',
    examples: [{ ...example, api_key: 'svc_sk_…' }],
  })
export type CreatedOwnKeyJson = z.infer<typeof createdOwnKeyJson>

export const ownKeyListJson = z.object({ keys: z.array(ownKeyJson) }).meta({ id: 'KeyList' })
export type OwnKeyListJson = z.infer<typeof ownKeyListJson>

// An organisation's usage between two times: query and response.
import { z } from 'zod'
import { billingMode, tier } from './desktops.ts'
import { id } from './ids.ts'
import { selector } from './labels.ts'
import { unixSecs } from './unix-secs.ts'

export const usageQuery = z.object({
  start: unixSecs.optional().describe('Unix seconds, whole or decimal; by default the start of the current UTC month'),
  end: unixSecs.optional().describe('Unix seconds, whole or decimal; by default now'),
  select: selector
    .optional()
    .describe('Only desktops whose labels match now, such as `team=qa,run!=42,env in (a,b),owner,!old`'),
})

const seconds = z.number().min(0)

const used = {
  tier,
  billing_mode: billingMode,
  awake_seconds: seconds.describe('Only time for which the host proved that the desktop ran'),
  hibernated_seconds: seconds,
}

const exampleUse = { tier: 'small', billing_mode: 'hourly', awake_seconds: 3_600.25, hibernated_seconds: 7_200 }

export const usageJson = z
  .object({
    start: seconds.describe('Unix seconds'),
    end: seconds.describe('Unix seconds'),
    desktops: z.array(z.object({ desktop_id: id, ...used })).describe('Including destroyed ones'),
    totals: z.array(z.object(used)).describe('The exact sums of the rows above'),
  })
  .meta({
    id: 'Usage',
    examples: [
      {
        start: 1_767_225_600,
        end: 1_767_312_000.5,
        desktops: [{ desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80', ...exampleUse }],
        totals: [exampleUse],
      },
    ],
  })
export type UsageJson = z.infer<typeof usageJson>

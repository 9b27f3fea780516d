// A bulk: one action on many desktops, as a plan with a row for each.
import { z } from 'zod'
import { listOf } from './bounds.ts'
import { desktopState, time } from './desktops.ts'
import { id } from './ids.ts'
import { labelChanges, selector } from './labels.ts'
import { refusalCode } from './refusals.ts'

export const bulkDesktopsMax = 20_000
const idsMax = 1_000

export const bulkActions = ['wake', 'hibernate', 'destroy', 'label'] as const
export const bulkAction = z.enum(bulkActions)
export type BulkAction = z.infer<typeof bulkAction>

/** Which desktops are always named: none is chosen by leaving something out. */
export const bulkBody = z
  .strictObject({
    action: bulkAction,
    select: selector.optional().describe('The desktops whose labels match now, such as `team=qa,run!=42`'),
    ids: listOf(id, idsMax)
      .refine((given) => given.length > 0, 'must name at least one desktop')
      .optional()
      .describe('These desktops; in place of `select`')
      .meta({ type: 'array', items: { type: 'string', format: 'uuid' }, minItems: 1, maxItems: idsMax }),
    labels: labelChanges.optional().describe('With the action `label`: labels to set; `null` removes one'),
    dry_run: z.boolean().optional().describe('Return the rows, and do nothing'),
  })
  .meta({
    id: 'BulkBody',
    examples: [
      { action: 'hibernate', select: 'team=qa' },
      { action: 'label', select: 'run=42', labels: { run: null, kept: 'yes' } },
    ],
  })
export type BulkBody = z.input<typeof bulkBody>

export const bulkStatuses = ['waiting', 'working', 'succeeded', 'failed', 'skipped', 'cancelled'] as const
export const bulkStatus = z.enum(bulkStatuses)
export type BulkStatus = z.infer<typeof bulkStatus>

export const bulkDesktopJson = z
  .object({
    desktop_id: id,
    name: z.string().nullable(),
    state: desktopState.nullable().describe('Its state now; null if there is no such desktop'),
    status: bulkStatus.describe('`skipped`: there is nothing to do, or its state does not permit it'),
    reason: z.object({ code: refusalCode, detail: z.string() }).nullable().describe('Why it was skipped or has failed'),
    operation_id: id.nullable().describe('The operation that the plan has begun for it'),
  })
  .meta({ id: 'BulkDesktop' })
export type BulkDesktopJson = z.infer<typeof bulkDesktopJson>

const exampleId = '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b82'

export const bulkJson = z
  .object({
    id: id.nullable().describe('Null for a dry run'),
    action: bulkAction,
    select: z.string().nullable().describe('Null if the desktops were named by their ids'),
    state: z.enum(['planned', 'running', 'done', 'cancelled']).describe('`planned` is the answer of a dry run'),
    created_at: time.nullable(),
    settled_at: time.nullable(),
    progress: z
      .object({
        total: z.int(),
        waiting: z.int(),
        working: z.int(),
        succeeded: z.int(),
        failed: z.int(),
        skipped: z.int(),
        cancelled: z.int(),
      })
      .describe('Desktops by status'),
    desktops: z.array(bulkDesktopJson).describe('A row for each, by id'),
  })
  .meta({
    id: 'Bulk',
    examples: [
      {
        id: exampleId,
        action: 'hibernate',
        select: 'team=qa',
        state: 'running',
        created_at: '2026-01-01T12:00:00.000Z',
        settled_at: null,
        progress: { total: 1, waiting: 0, working: 1, succeeded: 0, failed: 0, skipped: 0, cancelled: 0 },
        desktops: [
          {
            desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
            name: 'build-1',
            state: 'hibernating',
            status: 'working',
            reason: null,
            operation_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b83',
          },
        ],
      },
    ],
  })
export type BulkJson = z.infer<typeof bulkJson>

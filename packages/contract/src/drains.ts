// A drain: operators empty a host of the desktops that run on it, step by step, with a plan first.
import { z } from 'zod'
import { wakeLockJson } from './activity.ts'
import { desktopState, time } from './desktops.ts'
import { id } from './ids.ts'
import { refusalCode } from './refusals.ts'

/** What becomes of desktops that sleep on the host. */
export const drainSleeping = z.enum(['leave', 'move'])
export type DrainSleeping = z.infer<typeof drainSleeping>

/** How desktops that are awake leave the host. */
export const drainAwake = z.enum(['live', 'hibernate'])
export type DrainAwake = z.infer<typeof drainAwake>

/** Unknown fields are refused: a misspelt `dry_run` must not begin a drain. */
export const drainBody = z.strictObject({
  dry_run: z.boolean().optional().describe('Answers the plan and changes nothing'),
  sleeping: drainSleeping
    .optional()
    .describe('Desktops that sleep there: `leave` (default) keeps them, and they wake elsewhere if there is room'),
  awake: drainAwake
    .optional()
    .describe('Desktops that are awake there: `live` (default) moves them; `hibernate` saves them first'),
  deadline_secs: z.int().min(1).max(604_800).optional().describe('After this, nothing new begins; 3,600 by default'),
  concurrency: z.int().min(1).max(64).optional().describe('Desktops that leave at once; 2 by default'),
  grace_secs: z
    .int()
    .min(0)
    .max(86_400)
    .optional()
    .describe('How long commands and transfers of a desktop may delay it; 60 by default'),
})
export type DrainBody = z.input<typeof drainBody>

/** `planned` is the answer of a dry run. */
export const drainStates = ['planned', 'running', 'cancelling', 'drained', 'blocked', 'cancelled'] as const
export const drainState = z.enum(drainStates)
export type DrainState = z.infer<typeof drainState>

export const drainActions = [
  'live_move',
  'hibernate_and_move',
  'hibernate',
  'move',
  'leave',
  'none',
  'blocked',
] as const
export const drainAction = z.enum(drainActions)
export type DrainAction = z.infer<typeof drainAction>

export const drainStatuses = ['waiting', 'working', 'moved', 'left', 'gone', 'blocked'] as const
export const drainStatus = z.enum(drainStatuses)
export type DrainStatus = z.infer<typeof drainStatus>

export const drainReason = z.object({
  code: refusalCode.describe('Why, for programs'),
  detail: z.string().describe('Why, for operators; may name hosts'),
})
export type DrainReason = z.infer<typeof drainReason>

export const drainDesktopJson = z
  .object({
    desktop_id: id,
    org_id: id,
    state: desktopState,
    action: drainAction.describe('What the drain does next, or would do; `none` once nothing is left to do'),
    to_host_id: id.nullable().describe('Where it is, once it has moved; where it would go, in a plan'),
    to_host: z.string().nullable().describe('The name of that host'),
    estimated_secs: z.number().nullable().describe('By what such steps took lately; null where none did'),
    status: drainStatus.describe(
      '`waiting`, `working`, or how it ended: `moved` to another host, `left` asleep, `gone` (destroyed or failed), `blocked`',
    ),
    hibernated: z.boolean().describe('The drain has hibernated it'),
    operation_id: id.nullable().describe('The latest operation of the drain for it'),
    tries: z.int().describe('Operations that the drain has begun for it'),
    reason: drainReason.nullable().describe('Why it waits or is blocked'),
    wake_locks: z.array(wakeLockJson).optional().describe('Its wake locks. They do not hold the drain off'),
  })
  .meta({ id: 'DrainDesktop' })
export type DrainDesktopJson = z.infer<typeof drainDesktopJson>

export const drainJson = z
  .object({
    id: id.nullable().describe('Null for a dry run'),
    host_id: id,
    host_name: z.string(),
    state: drainState,
    sleeping: drainSleeping,
    awake: drainAwake,
    concurrency: z.int(),
    grace_secs: z.int(),
    deadline_secs: z.int(),
    created_at: time.nullable(),
    settled_at: time.nullable(),
    progress: z
      .object({
        total: z.int(),
        waiting: z.int(),
        working: z.int(),
        moved: z.int(),
        left: z.int(),
        gone: z.int(),
        blocked: z.int(),
      })
      .describe('Desktops by status'),
    estimated_secs: z.number().nullable().describe('For what is left to do; null where that is unknown'),
    desktops: z.array(drainDesktopJson),
  })
  .meta({ id: 'Drain' })
export type DrainJson = z.infer<typeof drainJson>

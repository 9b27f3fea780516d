// Events: what has changed, in the order in which it changed.

import { z } from 'zod'
import { time } from './desktops.ts'
import { id } from './ids.ts'
import { didYouMean } from './nearest.ts'

/** Events of an organisation: its desktops, operations, claims, wake locks, keys and webhooks, and what was left out. */
export const customerEventTypes = [
  'desktop.state',
  'desktop.moved',
  'desktop.copied',
  'desktop.destroy_soon',
  'desktop.schedule_skipped',
  'desktop.out_of_memory',
  'desktop.disk_full',
  'operation.pending',
  'operation.running',
  'operation.succeeded',
  'operation.failed',
  'claim.taken',
  'claim.connected',
  'claim.disconnected',
  'claim.released',
  'wake_lock.taken',
  'wake_lock.renewed',
  'wake_lock.released',
  'wake_lock.expired',
  'key.created',
  'key.revoked',
  'webhook.disabled',
  'events.left_out',
  'deliveries.left_out',
] as const

/** For operators only. */
const hostEventTypes = [
  'host.enrolled',
  'host.connected',
  'host.unreachable',
  'host.unhealthy',
  'host.healthy',
  'host.cordoned',
  'host.uncordoned',
  'host.draining',
  'host.drain_ended',
  'host.quarantined',
  'host.quarantine_ended',
  'host.withheld',
  'host.trusted',
  'host.lost',
  'host.returned',
  'host.removed',
] as const

export const eventTypes = [...customerEventTypes, ...hostEventTypes] as const
export type EventType = (typeof eventTypes)[number]

/** A refusal's sentence for an unknown type, or a list with one: what it resembles, and all that there are. */
export const unknownEventType =
  (types: readonly EventType[]) =>
  ({ input }: { input?: unknown }): string => {
    const given = String([input].flat().find((one) => !types.some((type) => type === one)))
    const all = `must be ${types.slice(0, -1).join(', ')} or ${types.at(-1)}`
    return `there is no type "${given.slice(0, 80).toWellFormed()}"${didYouMean(given, types)}; ${all}`
  }

const eventExample = {
  id: '1f0c7a9e2s8',
  type: 'desktop.state',
  at: '2026-01-01T12:02:07.512Z',
  desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
  data: {
    state: 'awake',
    previous_state: 'waking',
    generation: 1,
    host_id: '01980a00-9f8e-7d6c-8b5a-493827160504',
    failure_code: null,
  },
}

export const eventJson = z
  .object({
    id: z.string().describe('Names the event, and is the cursor behind it: pass it as `after` to read on'),
    type: z.enum(customerEventTypes).describe('A later release may add types'),
    at: time,
    desktop_id: id.nullable().describe('The desktop that it concerns; null for one that concerns none'),
    data: z
      .record(z.string(), z.unknown())
      .describe(
        'By type. `desktop.state`: `state`, `previous_state`, `generation`, `host_id`, `failure_code`. `desktop.destroy_soon`: `destroy_at`; about an hour before. `desktop.schedule_skipped`: `action`, `planned_at`, `reason`, which is `missed` (more than an hour late), `overtaken` (a later time came first) or the code of a refusal. `desktop.out_of_memory`: the guest’s kernel has ended `process`; `kills` since the event before, at most one event a minute. `desktop.disk_full`: `where`, which is `guest` (the file system at `path`) or `host` (the desktop stands still until its host has space). `operation.…`: `operation_id`, `kind`, `requested_by`, `state`, `result`, `error`, `error_code`. `claim.…`: `claim`. `wake_lock.…`: `name`, `reason`, `expires_at`. `key.…`: `key_id`, `name`. `webhook.disabled`: `webhook_id`, `url`, `reason`. `events.left_out`: `count`, `since`; so many events of wake locks, claims and keys were above the budget, and are not in the log. `deliveries.left_out`: `webhook_id`, `url`, `count`, `since`; so many events in the log were not sent to that webhook. A later release may add fields',
      ),
  })
  .meta({
    id: 'Event',
    examples: [eventExample],
  })
export type EventJson = z.infer<typeof eventJson>

export const eventListJson = z
  .object({
    events: z.array(eventJson).describe('Oldest first'),
    cursor: z.string().describe('The position behind this page, also where it is empty: pass it as `after`'),
    more: z
      .boolean()
      .describe(
        'Whether there may be more behind the cursor by now. With a filter, a page may be empty before the end',
      ),
  })
  .meta({ id: 'EventList', examples: [{ events: [eventExample], cursor: '1f0c7a9e2s8', more: false }] })
export type EventListJson = z.infer<typeof eventListJson>

/** As operators see it: of every organisation, and of hosts. */
export const adminEventJson = eventJson
  .extend({ type: z.enum(eventTypes), org_id: id.nullable(), host_id: id.nullable() })
  .meta({ id: 'AdminEvent' })
export type AdminEventJson = z.infer<typeof adminEventJson>

export const adminEventListJson = z.object({ events: z.array(adminEventJson), cursor: z.string(), more: z.boolean() })

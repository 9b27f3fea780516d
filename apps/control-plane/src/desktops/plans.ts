// What is planned for a desktop: its schedule and its end. Which times these are, and what a request changes of them. Decides
// nothing.
import {
  type ChangeDesktopBody,
  type CreateDesktopBody,
  type DesktopState,
  hasOffset,
  longestPlanSecs,
  type NextJson,
  refuseField,
  type ScheduleAction,
  type ScheduleBody,
  type ScheduleJson,
  type ScheduleTime,
  scheduleActions,
} from '@dormouse/contract'
import { cronAfter, instantOf, isCron, isTimeZone } from './cron.ts'
import { type Assignment, type DesktopRow, type NewPlan, secsFromNow } from './store.ts'

/** A time that was missed is done if it is not later than this. */
export const latestMs = 3_600_000
/** The event before the end comes so long before it, if the end was set so long before it. */
export const destroySoonMs = 3_600_000

/** One kind of times of a schedule, as it is stored. */
type StoredTime = NonNullable<ScheduleJson[ScheduleAction]>

export interface Plan {
  schedule: ScheduleJson | null
  /** Times of the schedule up to these are done, skipped, or before it was set. */
  after: Record<ScheduleAction, Date | null>
  destroyAt: Date | null
  /** Whether the event before the end was written, or is not wanted. */
  destroySoonNoted: boolean
  state: DesktopState
  /** The database's clock. */
  now: Date
}

/** The first time of the schedule that is not done; null if there is none. */
export function nextOf({ schedule, after }: Pick<Plan, 'schedule' | 'after'>, action: ScheduleAction): Date | null {
  const time = schedule?.[action]
  const from = after[action]
  return time && from ? timeAfter(time, from) : null
}

/** What happens by the plan. */
export function nextByPlan(plan: Pick<Plan, 'schedule' | 'after' | 'destroyAt' | 'state'>): NextJson[] {
  if (plan.state === 'destroying' || plan.state === 'destroyed') return []
  const times = scheduleActions.map((what) => ({ what, at: nextOf(plan, what), because: 'schedule' as const }))
  return [...times, { what: 'destroy' as const, at: plan.destroyAt, because: 'end' as const }].flatMap(
    ({ at, ...next }) => (at ? [{ ...next, at: at.toISOString() }] : []),
  )
}

function timeAfter({ cron, time_zone: timezone, at }: StoredTime, from: Date): Date | null {
  if (at !== undefined) return new Date(at) > from ? new Date(at) : null
  return cron === undefined ? null : cronAfter(cron, timezone ?? 'UTC', from)
}

/** What a PATCH changes of the plan; it is readable. What it sends as it is already stays as it is, so a repeat does nothing twice. */
export function planChanges(body: ChangeDesktopBody, desktop: DesktopRow): Assignment[] {
  const changes = [...endChanges(body), ...scheduleChanges(body, desktop)]
  return changes.length > 0 ? [...changes, { column: 'due_at', as: 'clock_timestamp()' }] : []
}

function endChanges({ destroy_after_secs: secs }: ChangeDesktopBody): Assignment[] {
  if (secs === undefined) return []
  return [
    { column: 'destroy_at', as: secsFromNow('$'), value: secs },
    { column: 'destroy_soon_noted', value: isSoon(secs) },
  ]
}

function scheduleChanges({ schedule: given }: ChangeDesktopBody, { schedule: before }: DesktopRow): Assignment[] {
  if (given === undefined) return []
  const schedule = given === null ? null : scheduleOf({ ...before, ...given })
  const changed = scheduleActions.filter((action) => !isSame(before?.[action], schedule?.[action]))
  if (changed.length === 0) return []
  for (const action of changed) requireComing(action, schedule?.[action])
  return [
    { column: 'schedule', value: schedule && JSON.stringify(schedule) },
    ...changed.map((action) => ({
      column: `${action}_after`,
      as: secsFromNow('$'),
      value: countsFromSecs(schedule?.[action]),
    })),
  ]
}

/** What a new desktop begins with. Refuses times that never come. */
export function planOfNew({ destroy_after_secs: secs, schedule: given }: CreateDesktopBody): NewPlan {
  requireReadable({ schedule: given })
  const schedule = given ? scheduleOf(given) : null
  for (const action of scheduleActions) requireComing(action, schedule?.[action])
  return {
    destroyAfterSecs: secs ?? null,
    destroySoonNoted: isSoon(secs ?? null),
    schedule,
    wakeAfterSecs: countsFromSecs(schedule?.wake),
    hibernateAfterSecs: countsFromSecs(schedule?.hibernate),
  }
}

/** Whether the end is too near for the event before it. */
const isSoon = (secs: number | null): boolean => secs !== null && secs * 1_000 < destroySoonMs

/** From when on times count, in seconds from now. One time may have passed while its request was under way. */
const countsFromSecs = (time: StoredTime | undefined): number | null =>
  time ? (time.at === undefined ? 0 : -latestMs / 1_000) : null

/** As it is stored; null if it has no times. */
function scheduleOf(given: ScheduleBody): ScheduleJson | null {
  const times = scheduleActions.flatMap((action) => {
    const time = given[action]
    return time ? [[action, storedTime(time)] as const] : []
  })
  return times.length > 0 ? Object.fromEntries(times) : null
}

function storedTime({ cron, time_zone = 'UTC', at }: ScheduleTime): StoredTime {
  if (at !== undefined) return { at: (hasOffset(at) ? new Date(at) : instantOf(at, time_zone)).toISOString() }
  return { cron: cron!.trim().split(/\s+/).join(' '), time_zone }
}

const isSame = (one: StoredTime | undefined, other: StoredTime | undefined): boolean =>
  one?.cron === other?.cron && one?.time_zone === other?.time_zone && one?.at === other?.at

/** Refuses cron expressions and time zones that are none, and expressions whose time never comes. */
export function requireReadable({ schedule }: Pick<ChangeDesktopBody, 'schedule'>): void {
  for (const action of scheduleActions) {
    const given = schedule?.[action]
    if (!given) continue
    const field = `schedule.${action}`
    if (!isTimeZone(given.time_zone ?? 'UTC'))
      refuseField(`${field}.time_zone`, 'must be a name of the IANA time zone database, such as Europe/Berlin')
    const { cron, time_zone: timezone = 'UTC' } = storedTime(given)
    if (cron === undefined) continue
    if (!isCron(cron)) refuseField(`${field}.cron`, fiveFields)
    if (!cronAfter(cron, timezone, new Date())) refuseField(`${field}.cron`, 'names a time that never comes')
  }
}

const fiveFields =
  'must be five fields (minute, hour, day of month, month, day of week) of numbers, names, `*`, `,`, `-` and `/`, such as `0 8 * * 1-5`'

/** By this replica's clock, which is good enough to find a mistake. Everything else goes by the database's clock. */
function requireComing(action: ScheduleAction, time: StoredTime | undefined): void {
  if (time?.at === undefined) return
  const inMs = Date.parse(time.at) - Date.now()
  if (inMs < -latestMs) refuseField(`schedule.${action}.at`, 'must not be more than an hour ago')
  if (inMs > longestPlanSecs * 1_000) refuseField(`schedule.${action}.at`, 'must be within the next hundred years')
}

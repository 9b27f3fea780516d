// Judges whether a desktop is idle: what keeps it awake, and when it will hibernate. Pure; all times are relative to now, in
// milliseconds.
import {
  type ActivityClass,
  activityClasses,
  type awakeReasons,
  type DesktopState,
  type HostClass,
  hostClasses,
  type IdleCondition,
} from '@dormouse/contract'
import type { Seen } from '../activity/host-reports.ts'
import { inputEveryMs } from '../activity/screen-inputs.ts'

export interface Facts {
  state: DesktopState
  timeoutMs: number
  policy: readonly ActivityClass[]
  /** Whether desktops hibernate by themselves in this installation. */
  enabled: boolean
  /** Whether an operation is in progress, or waits. */
  busy: boolean
  /** How long ago each was, if that is stored. The end of wake locks may be in the future, and is negative then. */
  ages: Partial<Record<ActivityClass | 'wake_lock', number>>
  locks: readonly { name: string; reason: string; leftMs: number }[]
  wokeAgoMs: number | null
  /** The latest change of its settings. */
  changedAgoMs: number
  /** As its host sees it now; undefined if the host is unreachable or reports no activity. */
  seen: Seen | undefined
}

type Reason = (typeof awakeReasons)[number]

export interface AwakeReason {
  reason: Reason
  detail: string
  /** Until it no longer keeps the desktop awake, if nothing happens; null if that is not known. */
  leftMs: number | null
}

export interface Verdict {
  activity: { class: ActivityClass; counts: boolean; now: boolean; agoMs: number | null }[]
  because: AwakeReason[]
  /** Null if the desktop does not hibernate by itself as things are, or that time is not known. */
  sleepsInMs: number | null
  /** It cannot fall due before. */
  lookAgainInMs: number
}

/** What ends without a time of its own is looked at again after these. */
const lookAgainMs: Partial<Record<Reason, number>> = { operation: 3_000, host: 30_000 }
/** A host reports a desktop that has just woken within a few seconds. */
const soonMs = 3_000
const longestLookMs = 3_600_000

export function judge(facts: Facts): Verdict {
  const { state, timeoutMs } = facts
  const activity = activityClasses.map((what) => activityOf(facts, what))
  if (state !== 'awake') return { activity, because: [], sleepsInMs: null, lookAgainInMs: longestLookMs }
  const because = [...never(facts), ...activity.flatMap((one) => keptBy(facts, one)), ...otherReasons(facts)]
  const ends = because.map(({ leftMs }) => leftMs)
  const sleepsInMs = ends.includes(null) ? null : Math.max(0, ...ends.map((leftMs) => leftMs!))
  const isNew = facts.wokeAgoMs !== null && facts.wokeAgoMs < lookAgainMs.host!
  const waits = because.map(({ reason, leftMs }) => {
    if (reason === 'host' && isNew) return leftMs ?? soonMs
    return leftMs ?? lookAgainMs[reason] ?? timeoutMs
  })
  return { activity, because, sleepsInMs, lookAgainInMs: Math.min(longestLookMs, Math.max(0, ...waits)) }
}

/** What the host is to check last. The other classes are known here. */
export const conditionOf = ({ timeoutMs, policy }: Pick<Facts, 'timeoutMs' | 'policy'>): IdleCondition => ({
  forMs: timeoutMs,
  classes: hostClasses.filter((what) => policy.includes(what)),
})

function activityOf({ policy, ages, seen }: Facts, what: ActivityClass): Verdict['activity'][number] {
  const known = [ages[what], seen?.ages[what as HostClass]].filter((age) => age !== undefined)
  const now = seen?.busy.includes(what as HostClass) ?? false
  const agoMs = known.length > 0 ? Math.max(0, Math.min(...known)) : null
  return { class: what, counts: policy.includes(what), now, agoMs: now ? 0 : agoMs }
}

const descriptions: Record<ActivityClass, { now: string; was: string }> = {
  command: { now: 'a command is running', was: 'the last command ended' },
  transfer: { now: 'a file is being transferred', was: 'the last file transfer ended' },
  screen: { now: 'the screen is being used', was: 'the last input on the screen was' },
  input: { now: 'input is being sent', was: 'the last input through the API was' },
  cpu: { now: 'the guest is using its processors', was: 'the guest last used its processors' },
  network: { now: 'the guest is using its network', was: 'the guest last used its network' },
}

/** A command or a transfer in flight keeps the desktop awake whatever its policy is. */
function keptBy({ timeoutMs }: Facts, { class: what, counts, now, agoMs }: Verdict['activity'][number]): AwakeReason[] {
  const always = what === 'command' || what === 'transfer'
  if (now && (counts || always)) return [{ reason: what, detail: descriptions[what].now, leftMs: null }]
  if (!counts || agoMs === null) return []
  const slackMs = what === 'screen' ? inputEveryMs : 0
  return lasting(what, descriptions[what].was, agoMs - slackMs, timeoutMs)
}

/** A reason that counts from a moment on. */
function lasting(reason: Reason, what: string, agoMs: number, timeoutMs: number): AwakeReason[] {
  const leftMs = timeoutMs - agoMs
  if (leftMs <= 0) return []
  return [{ reason, detail: `${what} less than ${Math.round(timeoutMs / 1_000)} s ago`, leftMs }]
}

function never({ timeoutMs, enabled }: Facts): AwakeReason[] {
  if (!enabled) return [{ reason: 'off', detail: 'no desktop of this installation hibernates by itself', leftMs: null }]
  if (timeoutMs === 0) return [{ reason: 'never', detail: 'the desktop’s idle timeout is 0', leftMs: null }]
  return []
}

function otherReasons({ timeoutMs, busy, ages, locks, wokeAgoMs, changedAgoMs, seen }: Facts): AwakeReason[] {
  const lockedAgoMs = ages.wake_lock
  return [
    ...locks.map(({ name, reason, leftMs }) => ({
      reason: 'wake_lock' as const,
      detail: `wake lock "${name}": ${reason}`,
      leftMs: leftMs + timeoutMs,
    })),
    ...(locks.length === 0 && lockedAgoMs !== undefined
      ? lasting('wake_lock', 'the last wake lock ended', lockedAgoMs, timeoutMs)
      : []),
    ...(wokeAgoMs === null ? [] : lasting('wake', 'the desktop woke', wokeAgoMs, timeoutMs)),
    ...lasting('settings', 'the settings of its hibernation changed', changedAgoMs, timeoutMs),
    ...(busy ? [{ reason: 'operation' as const, detail: 'an operation is in progress', leftMs: null }] : []),
    ...(seen
      ? lasting('host', 'its host began to watch it', seen.watchedMs, timeoutMs)
      : [{ reason: 'host' as const, detail: 'its host has not reported yet, or is unreachable', leftMs: null }]),
  ]
}

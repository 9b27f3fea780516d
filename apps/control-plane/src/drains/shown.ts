// A drain as operators see it. Pure.
import { type DrainDesktopJson, type DrainJson, Refusal } from '@dormouse/contract'
import { type WakeLock, wakeLockToJson } from '../activity/wake-locks.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { Durations } from '../operations/durations.ts'
import type { Judged, View } from './judge.ts'
import { reasonOf } from './needs.ts'
import type { DrainedDesktop } from './store.ts'

export interface Shown {
  view: View
  all: DrainedDesktop[]
  hostNames: ReadonlyMap<string, string>
  durations: Durations
  /** Wake locks by desktop. */
  locks: ReadonlyMap<string, WakeLock[]>
  /** In a plan: where each desktop would go, or why nowhere. */
  places?: ReadonlyMap<string, { id: string } | Refusal>
}

export function drainToJson({ view, all, hostNames, durations, locks, places }: Shown): DrainJson {
  const { drain } = view
  const desktops = all.map((known) => {
    const desktop = view.desktops.get(known.desktopId)!
    const estimatedSecs = isOver(known) ? 0 : estimate(durations, desktop, known)
    const to = known.status === 'moved' ? desktop.hostId : idOf(places?.get(known.desktopId))
    return toJson(desktop, known, {
      ...{ to, name: to && (hostNames.get(to) ?? null), estimatedSecs },
      locks: locks.get(known.desktopId) ?? [],
    })
  })
  const count = (status: DrainedDesktop['status']) => all.filter((one) => one.status === status).length
  return {
    id: places ? null : drain.id,
    host_id: drain.hostId,
    host_name: hostNames.get(drain.hostId) ?? drain.hostId,
    state: places ? 'planned' : drain.state,
    sleeping: drain.sleeping,
    awake: drain.awake,
    concurrency: drain.concurrency,
    grace_secs: drain.graceSecs,
    deadline_secs: drain.deadlineSecs,
    created_at: places ? null : drain.createdAt.toISOString(),
    settled_at: drain.settledAt?.toISOString() ?? null,
    progress: {
      total: all.length,
      waiting: count('waiting'),
      working: count('working'),
      moved: count('moved'),
      left: count('left'),
      gone: count('gone'),
      blocked: count('blocked'),
    },
    estimated_secs: inAll(desktops, drain.concurrency),
    desktops,
  }
}

function toJson(
  desktop: DesktopRow,
  known: DrainedDesktop,
  {
    to,
    name,
    estimatedSecs,
    locks,
  }: { to: string | null; name: string | null; estimatedSecs: number | null; locks: WakeLock[] },
): DrainDesktopJson {
  return {
    desktop_id: desktop.id,
    org_id: desktop.orgId,
    state: desktop.state,
    action: known.action,
    to_host_id: to,
    to_host: name,
    estimated_secs: estimatedSecs,
    status: known.status,
    hibernated: known.hibernated,
    operation_id: known.operationId,
    tries: known.tries,
    reason: known.reason,
    wake_locks: locks.map(wakeLockToJson),
  }
}

const idOf = (place: { id: string } | Refusal | undefined): string | null =>
  place === undefined || place instanceof Refusal ? null : place.id

const isOver = ({ status }: DrainedDesktop): boolean => status !== 'waiting' && status !== 'working'

/** By what such steps took lately; null if none did. */
function estimate(durations: Durations, { memoryMiB }: DesktopRow, { action }: DrainedDesktop): number | null {
  const { liveMoveSecsPerGiB: live, hibernateSecsPerGiB: saved, coldMoveSecs: cold } = durations
  const gib = memoryMiB / 1_024
  switch (action) {
    case 'live_move':
      return live === undefined ? null : rounded(live * gib)
    case 'hibernate':
      return saved === undefined ? null : rounded(saved * gib)
    case 'hibernate_and_move':
      return saved === undefined || cold === undefined ? null : rounded(saved * gib + cold)
    case 'move':
      return cold === undefined ? null : rounded(cold)
    default:
      return 0
  }
}

const rounded = (secs: number): number => Math.round(secs * 10) / 10

/** The work of all shared by those in progress at once, and not less than the longest of them. */
function inAll(desktops: DrainDesktopJson[], concurrency: number): number | null {
  let [sum, longest] = [0, 0]
  for (const { estimated_secs: secs } of desktops) {
    if (secs === null) return null
    sum += secs
    longest = Math.max(longest, secs)
  }
  return rounded(Math.max(sum / concurrency, longest))
}

/** The plan: what would begin, and what is blocked for lack of a place. */
export function planned(judged: Judged, places: ReadonlyMap<string, { id: string } | Refusal>): DrainedDesktop[] {
  return judged.all.map((known) => {
    const place = places.get(known.desktopId)
    if (!(place instanceof Refusal)) return known
    return { ...known, status: 'blocked', action: 'blocked', reason: reasonOf(place) }
  })
}

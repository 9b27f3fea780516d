// Judges a drain by what is true now: what became of each of its desktops, and which of them it may begin to take away. Pure:
// `runner.ts` reads, begins and stores.
import type { DesktopState } from '@dormouse/contract'
import { stateBefore } from '../desktops/operations/stored.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { OperationRow } from '../operations/store.ts'
import { actionFor, after, exhausted } from './steps.ts'
import type { DrainedDesktop, DrainRow } from './store.ts'

/** All of one moment. */
export interface View {
  drain: DrainRow
  /** What the drain has stored about each desktop. */
  known: ReadonlyMap<string, DrainedDesktop>
  /** The desktops on the host, and those that were. */
  desktops: ReadonlyMap<string, DesktopRow>
  /** Desktops with an operation in progress. */
  busy: ReadonlySet<string>
  /** The operations of the drain that it awaits. */
  operations: ReadonlyMap<string, OperationRow>
  /** Desktops that are on their way to the host. */
  arriving: number
}

export interface Judged {
  /** Every desktop of the drain, as it is now. */
  all: DrainedDesktop[]
  /** Those of them whose next step may begin. */
  ready: { desktop: DesktopRow; known: DrainedDesktop }[]
}

/** The time between two tries doubles from here. */
const retryMs = 1_000

const isLive = (operation: OperationRow | undefined): boolean =>
  operation?.state === 'pending' || operation?.state === 'running'

const isThere = (state: DesktopState): boolean => state !== 'destroyed' && state !== 'failed'

export function judge(view: View): Judged {
  const all: DrainedDesktop[] = []
  const ready: Judged['ready'] = []
  for (const desktop of view.desktops.values()) {
    const known = accountFor(view, view.known.get(desktop.id) ?? fresh(desktop.id))
    const judged = known.status === 'working' ? known : judgeOne(view, desktop, known)
    all.push(judged)
    if (judged.status === 'waiting' && mayBegin(view, judged)) ready.push({ desktop, known: judged })
  }
  return { all, ready }
}

const fresh = (desktopId: string): DrainedDesktop => ({
  desktopId,
  status: 'waiting',
  action: 'none',
  operationId: null,
  tries: 0,
  failures: 0,
  cold: false,
  hibernated: false,
  retryAt: null,
  busySince: null,
  reason: null,
})

/** What an operation of the drain has changed that has settled. */
function accountFor({ drain, operations, busy }: View, known: DrainedDesktop): DrainedDesktop {
  if (known.status !== 'working') return known
  const operation = known.operationId === null ? undefined : operations.get(known.operationId)
  if (isLive(operation)) return known
  const idle = { ...known, status: 'waiting' as const, busySince: null }
  // It was not accepted, or the answer was lost: then the desktop is busy, and looked at again.
  if (!operation) return busy.has(known.desktopId) ? { ...idle, operationId: null } : idle
  const { kind, errorCode, cause, error } = operation
  const tried = after(known, { kind, errorCode, from: stateBefore(operation) })
  if (errorCode === null) return { ...idle, ...tried, reason: null, retryAt: null }
  const waitMs = retryMs * 2 ** Math.min(tried.failures, 5)
  const reason = { code: errorCode, detail: cause || error || '' }
  return { ...idle, ...tried, reason, retryAt: new Date(drain.now.getTime() + waitMs) }
}

function judgeOne(view: View, desktop: DesktopRow, known: DrainedDesktop): DrainedDesktop {
  const { drain, busy } = view
  if (!isThere(desktop.state)) return { ...known, status: 'gone', action: 'none', reason: null }
  if (desktop.hostId !== drain.hostId) return { ...known, status: 'moved', action: 'none', reason: null }
  const action = busy.has(desktop.id) ? 'none' : actionFor(desktop.state, drain, known)
  if (action === 'none') {
    const reason = { code: 'conflict', detail: 'another operation of the desktop is in progress' } as const
    return drain.late ? { ...known, ...blocked(reason) } : { ...known, status: 'waiting', action, reason }
  }
  if (action === 'leave') return { ...known, status: 'left', action, reason: null }
  const isLate = drain.late
    ? ({ code: 'deadline_exceeded', detail: 'the deadline of the drain has passed' } as const)
    : undefined
  const never = exhausted(known, known.reason) ?? isLate
  return never ? { ...known, ...blocked(never) } : { ...known, status: 'waiting', action }
}

export const blocked = (reason: NonNullable<DrainedDesktop['reason']>) =>
  ({ status: 'blocked', action: 'blocked', reason }) as const

const mayBegin = ({ drain }: View, { action, retryAt }: DrainedDesktop): boolean =>
  drain.state === 'running' && action !== 'none' && (retryAt === null || new Date(retryAt) <= drain.now)

/** Whether nothing is left to do; undefined if something is. */
export function outcomeOf({ drain, arriving }: View, all: DrainedDesktop[]): DrainRow['state'] | undefined {
  if (all.some(({ status }) => status === 'working')) return undefined
  if (drain.state === 'cancelling') return 'cancelled'
  if (all.some(({ status }) => status === 'waiting')) return undefined
  if (arriving > 0 && !drain.late) return undefined
  return arriving > 0 || all.some(({ status }) => status === 'blocked') ? 'blocked' : 'drained'
}

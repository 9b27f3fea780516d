// What a drain does next with one desktop. Pure: a function of the desktop's state and of what was tried.
import {
  type DesktopState,
  type DrainAction,
  type DrainAwake,
  type DrainReason,
  type DrainSleeping,
  factsOf,
  type RefusalCode,
} from '@dormouse/contract'

/** What became of the drain's tries with one desktop. */
export interface Tried {
  /** Operations that the drain has begun. */
  tries: number
  /** Those that failed, other than by a request of the desktop's owner. */
  failures: number
  /** It does not move live. */
  cold: boolean
  /** The drain has hibernated it. */
  hibernated: boolean
}

export interface Mode {
  sleeping: DrainSleeping
  awake: DrainAwake
}

/** After this many failures in one way, the drain goes another way, or gives up. */
const mostFailures = 3
const mostLiveFailures = 2
/** Requests of its owner may end a try again and again. */
const mostTries = 10

/** What the drain would do with the desktop now. `none`: something else is in progress. */
export function actionFor(state: DesktopState, { sleeping, awake }: Mode, { cold, hibernated }: Tried): DrainAction {
  switch (state) {
    case 'awake':
      if (awake === 'live' && !cold) return 'live_move'
      return cold || sleeping === 'move' ? 'hibernate_and_move' : 'hibernate'
    case 'hibernated':
    case 'stopped':
      return sleeping === 'move' || (cold && hibernated) ? 'move' : 'leave'
    case 'created':
      return 'leave'
    default:
      return 'none'
  }
}

/** Whether no further try is made, and why. */
export function exhausted({ tries, failures }: Tried, reason: DrainReason | null): DrainReason | undefined {
  if (failures >= mostFailures) return reason ?? { code: 'internal', detail: `${failures} tries failed` }
  if (tries < mostTries) return undefined
  return { code: 'superseded', detail: `requests of its owner interrupted ${tries} attempts of the drain` }
}

/** How an operation of the drain ended. */
export interface Outcome {
  kind: string
  errorCode: RefusalCode | null
  /** The state in which the desktop was when it began; undefined if that is no longer known. */
  from: DesktopState | undefined
}

/** The tries after an operation of the drain has settled. */
export function after(before: Tried, { kind, errorCode, from }: Outcome): Tried {
  const { tries, failures: earlier, cold, hibernated } = before
  const tried = { tries, failures: earlier, cold, hibernated }
  if (errorCode === null) return { ...tried, failures: 0, hibernated: tried.hibernated || kind === 'hibernate' }
  // A request of its owner wins.
  if (errorCode === 'superseded') return tried
  const failures = tried.failures + 1
  const live = kind === 'move' && from === 'awake' && !tried.cold
  // Its guest may write faster than the transfer is. A host that cannot be reached, or has no capacity, is another matter.
  const givesUpLive = live && !isForWantOfHost(errorCode) && failures >= mostLiveFailures
  return givesUpLive ? { ...tried, failures: 0, cold: true } : { ...tried, failures }
}

/** No reachable host has capacity: that does not show whether the desktop can move live. */
const isForWantOfHost = (code: RefusalCode): boolean =>
  code === 'host_unreachable' || factsOf(code).retried === 'while_hosts_return'

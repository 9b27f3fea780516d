// What happens to a request that arrives while the service itself moves or hibernates the desktop, or that asks for a result
// which an operation in progress brings. Pure.
import { isRequestKind, type OperationRequester, Refusal, type RequestKind, refuse } from '@dormouse/contract'
import { isOwnHibernation, type Line } from '../operations/followers.ts'
import type { OperationRow } from '../operations/store.ts'
import { illegalRequest, isLegal, transitions } from './states.ts'
import type { DesktopRow } from './store.ts'

/**
 * The operation behind which the request waits. A destroy does not wait for a hibernation: it supersedes it. A request that
 * began with a host's report never waits, because what the host reported is outdated by then.
 */
export function waitsBehind(
  kind: RequestKind,
  { ahead }: Line,
  requestedBy?: OperationRequester,
): OperationRow | undefined {
  if (ahead && requestedBy === 'host') refuse('conflict', 'another operation of the desktop is in progress')
  return ahead?.kind === 'hibernate' && kind === 'destroy' ? undefined : ahead
}

/** Whether a wake was refused because the desktop counts as awake. */
export const isWakeOfAwake = (kind: RequestKind, error: unknown): boolean =>
  kind === 'wake' && error instanceof Refusal && error.code === 'wrong_state' && error.extra.state === 'awake'

/**
 * Refuses with `wrong_state` if the desktop's state does not allow the request. A move or a hibernation by the service is no
 * reason to refuse: the first request waits behind it, and later requests are judged as if the waiting one had begun. One that
 * waits behind a restore is judged as if that had succeeded.
 */
export function requireLegal(kind: RequestKind, desktop: DesktopRow, { ahead, next }: Line): void {
  const waiting = next && isRequestKind(next.kind) ? next.kind : undefined
  if (!waiting && ahead?.kind === 'hibernate' && kind !== 'destroy') return
  const rests = ahead?.kind === 'restore' ? 'stopped' : desktop.state
  const state = waiting ? transitions[waiting].via : rests
  if (!isLegal(kind, state)) refuse('wrong_state', illegalRequest(kind, state, desktop.failureCode), { state })
}

/** For a request with `ensure`: a wake waits behind any hibernation, whoever has requested it. */
export const lineOfEnsured = (kind: RequestKind, line: Line): Line =>
  kind === 'wake' && line.current?.kind === 'hibernate' ? { ...line, ahead: line.current } : line

/**
 * For a request with `ensure`: the operation that brings the result, or `already` if the desktop is as it is to be. Undefined if
 * the request has to begin. It does not join a hibernation by the service, of which nothing is left if the desktop is in use.
 */
export function joinedBy(
  kind: RequestKind,
  { state }: DesktopRow,
  { current, next }: Line,
): OperationRow | 'already' | undefined {
  if (next && isRequestKind(next.kind)) return next.kind === kind ? next : undefined
  if (current?.kind === kind && !isOwnHibernation(current)) return current
  return state === transitions[kind].done ? 'already' : undefined
}

// What a request meets that comes while the service itself moves or hibernates the desktop. Pure.
import { type RequestKind, refuse } from '@dormouse/contract'
import type { Line } from '../operations/followers.ts'
import type { OperationRow } from '../operations/store.ts'
import { illegalRequest, isLegal, transitions } from './states.ts'
import type { DesktopRow } from './store.ts'

/** The operation behind which the request waits. A destroy waits for no hibernation: it supersedes it. */
export const waitsBehind = (kind: RequestKind, { ahead }: Line): OperationRow | undefined =>
  ahead?.kind === 'hibernate' && kind === 'destroy' ? undefined : ahead

/**
 * Refuses with `wrong_state` where the desktop's state does not allow the request. It is never the move or the hibernation of the
 * service that refuses it: a request that waits behind one counts as begun, and the first to come may wait.
 */
export function requireLegal(kind: RequestKind, desktop: DesktopRow, { ahead, next }: Line): void {
  const waiting = next && next.kind !== 'move' ? next.kind : undefined
  if (!waiting && ahead?.kind === 'hibernate' && kind !== 'destroy') return
  const state = waiting ? transitions[waiting].via : desktop.state
  if (!isLegal(kind, state)) refuse('wrong_state', illegalRequest(kind, state, desktop.failureCode), { state })
}

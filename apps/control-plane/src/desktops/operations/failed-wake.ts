// The outcome of a failed wake, derived from what its undo found. Pure.
import type { DesktopState } from '@dormouse/contract'
import type { Failure } from '../../operations/failures.ts'
import type { Asleep, WakeInput } from './stored.ts'

/**
 * The state after the failure. If the saved memory was kept, the state shows it. If the host no longer has the memory, it
 * counts as lost only if the caller gave it up; otherwise an operator may restore it.
 */
export function stateAfterFailure(
  { from, discardMemory }: Pick<WakeInput, 'from' | 'discardMemory'>,
  asleep: Asleep | undefined,
): DesktopState {
  if (asleep === undefined || asleep === 'deferred') return from
  // It had failed because its host was lost; that host is back.
  if (from === 'failed') return asleep.state === 'absent' ? 'failed' : asleep.state
  if (asleep.memoryLost) return 'stopped'
  if (asleep.state === 'hibernated') return 'hibernated'
  if (from === 'hibernated' && discardMemory) return 'stopped'
  return from === 'created' && asleep.state === 'stopped' ? 'stopped' : from
}

/** Whether the desktop left nothing on its host: the next wake may then choose another. */
export const leftNothing = ({ hostId }: Pick<WakeInput, 'hostId'>, asleep: Asleep | undefined): boolean =>
  hostId === null && (asleep === undefined || (asleep !== 'deferred' && asleep.state === 'absent'))

/** What the failed wake has cost, as half a sentence; undefined if the failure's own text contains it. */
export function lossOf(
  { from, discardMemory }: Pick<WakeInput, 'from' | 'discardMemory'>,
  asleep: Asleep | undefined,
  failure: Failure,
): string | undefined {
  if (asleep === undefined) return 'nothing was lost'
  if (asleep === 'deferred') return 'its host will clean up when it can'
  if (asleep.memoryLost)
    return failure.code === 'memory_lost'
      ? 'its disk is kept'
      : 'the guest had already run and could not be saved again: its memory is lost, its disk is kept'
  if (asleep.state === 'hibernated') return 'its saved memory and its disk are kept'
  if (from === 'hibernated' && discardMemory) return 'the saved memory was discarded as requested, its disk is kept'
  if (asleep.state === 'stopped') return 'its disk is kept'
  return from === 'created' ? 'nothing was lost' : undefined
}

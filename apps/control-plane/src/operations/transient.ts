// Which failures of a step may pass by themselves, so that the step is tried again. Knows no step.
import { Refusal } from '@dormouse/contract'
import { isConnectionLost } from '../db/pool.ts'

/** These refusals are transient and retried. Every other refusal is final. */
const transient = new Set(['host_unreachable', 'guest_unavailable', 'database_unavailable', 'too_many_moves'])
/** These are transient too while hosts are still reconnecting to a new leader. */
const transientAtFirst = new Set(['no_host', 'host_away', 'no_room', 'image_unavailable'])

/** `atFirst`: hosts may still be reconnecting to a new leader. */
export function isTransient(error: unknown, atFirst: boolean): boolean {
  if (!(error instanceof Refusal)) return isConnectionLost(error)
  return transient.has(error.code) || (atFirst && transientAtFirst.has(error.code))
}

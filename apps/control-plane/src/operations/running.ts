// An operation that this replica runs or queues, and how that ends early. Knows no step.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Term } from '../leadership/leadership.ts'
import type { Findings } from './definition.ts'
import { Abandoned } from './failures.ts'
import type { OperationRow } from './store.ts'
import type { Slot } from './work-queue.ts'

export interface Running {
  row: OperationRow<object, Findings>
  /** This and the other times here are by the monotonic clock. */
  acceptedAt: number
  term: Term
  abort: AbortController
  signal: AbortSignal
  /** Aborted with a refusal if a request waits behind the operation, and it can still be undone. */
  yields: AbortController
  deadline: number
  /** For an operation of an earlier term: until then a missing host may still be reconnecting. */
  hostsDueAt: number
  /** The slot in which it may do its work; undefined while it waits. */
  slot: Slot | undefined
  done: Promise<void>
  /** The step that is stored as the one begun last. */
  marked: number
  /** How many steps the transaction that accepted it has done. */
  opened: number
  /** It has settled, and its waiting requests are resolved. */
  hasSettled: boolean
}

/** `slot`: the one that it took when it was accepted. */
export function runningOf(row: Running['row'], term: Term, hostsDueAt: number, slot?: Slot): Running {
  const abort = new AbortController()
  const signal = AbortSignal.any([term.signal, abort.signal])
  const now = performance.now()
  // Even after a long time without a leader it gets one more attempt: its host may have done the work.
  const deadline = Math.max(now + row.leftMs, hostsDueAt)
  const times = { acceptedAt: now - row.ageMs, deadline, hostsDueAt }
  const stored = { marked: row.step, opened: slot ? Math.max(row.step, 0) : 0, hasSettled: false }
  return { row, term, abort, signal, yields: new AbortController(), ...times, slot, done: Promise.resolve(), ...stored }
}

/** Throws if the operation is no longer ours. */
export function requireOurs({ signal }: Running): void {
  if (signal.aborted) throw new Abandoned('leadership ended, or a later request superseded it')
}

/** Waits before the next attempt, ever longer; throws as soon as the operation is no longer ours. */
export async function backoff(running: Running, attempt: number): Promise<void> {
  const ms = Math.min(2_000, 50 * 2 ** attempt) * (0.5 + Math.random() / 2)
  await sleep(ms, undefined, { signal: running.signal }).catch(() => requireOurs(running))
}

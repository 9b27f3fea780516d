// An operation that this replica runs or queues, and how that ends early. Knows no step.
import type { Term } from '../leadership/leadership.ts'
import type { OperationRow } from './store.ts'
import type { Slot } from './work-queue.ts'

/** The operation is no longer ours: leadership ended, or a later request superseded it. Nothing is written. */
export class Abandoned extends Error {}

export interface Running {
  row: OperationRow
  /** This and the other times here are by the monotonic clock. */
  acceptedAt: number
  term: Term
  abort: AbortController
  signal: AbortSignal
  deadline: number
  /** For an operation of an earlier term: until then a missing host may still be reconnecting. */
  hostsDueAt: number
  /** Where it may do its work; undefined while it waits. */
  slot: Slot | undefined
  done: Promise<void>
}

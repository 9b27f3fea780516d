// What the engine reports of operations to metrics, logs and traces. Knows none of them. An observer must not throw, and what
// it does must cost next to nothing.
import type { OperationRow } from './store.ts'

/** One attempt of a step, or of its undo. */
export interface StepAttempt {
  operation: OperationRow
  step: string
  way: 'run' | 'undo'
}

export interface EngineObserver {
  /** It was committed, or found after a change of leader. From now on it waits to run. */
  accepted(operation: OperationRow): void
  /** Wraps the run, from the end of the wait until it has settled or is no longer ours. */
  run(operation: OperationRow, work: () => Promise<void>): Promise<void>
  /** Wraps one attempt of a step. */
  attempt<T>(attempt: StepAttempt, work: () => Promise<T>): Promise<T>
  /** It has settled, even if a later request superseded it. */
  settled(operation: OperationRow): void
  /** It is no longer with this engine, settled or not. */
  left(operation: OperationRow): void
}

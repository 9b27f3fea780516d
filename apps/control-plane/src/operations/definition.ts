// What an operation is made of: steps, each with an undo or a stated reason for none. No word of desktops.
import type pg from 'pg'
import type { Failure, Findings } from './findings.ts'
import type { OperationRow } from './store.ts'

export interface StepContext {
  operation: OperationRow
  findings: Findings
  /** Of the present leader; goes into every command. */
  epoch: number
  /** Aborted when leadership is lost, the deadline passes, or a later request overtakes the operation. */
  signal: AbortSignal
  /** Milliseconds until the operation's deadline; for an undo, what one attempt may take. */
  remainingMs: number
  /** Milliseconds since the operation was accepted. */
  ageMs: number
}

/** What a settling transaction knows. */
export type SettleContext = Pick<StepContext, 'operation' | 'findings' | 'epoch'>

export interface Step {
  name: string
  /** May run twice; asks for a result, not an act. What it answers is added to the findings. */
  run(context: StepContext): Promise<Findings | undefined>
  /** Takes the step back, wherever in it the failure was. May run twice, too. */
  undo?(context: StepContext): Promise<Findings | undefined>
  /** What is found where the undo did not succeed before the deadline. `failed` must keep the undo for later. */
  putOff?: Findings
  /** Why there is nothing to take back. */
  noUndo?: string
}

export interface OperationDefinition {
  kind: string
  steps: Step[]
  /** The host that carries it, once one is known: only that one may report its progress. */
  hostOf(operation: OperationRow): string | null
  /**
   * Locks what the operation acts on. Always before the operation's own row: a request that overtakes it comes from that
   * side, and two orders would be a deadlock.
   */
  lock(tx: pg.PoolClient, operation: OperationRow): Promise<unknown>
  /** The last step, in the one transaction that settles the operation: makes the new state true. */
  succeeded(tx: pg.PoolClient, context: SettleContext): Promise<Record<string, unknown>>
  /** After a success is committed: what may be lost without harm, since steady care does it again. */
  afterwards?(context: SettleContext): Promise<void>
  /**
   * Instead of it, after the undos: puts what the operation acted on back into a true state. Answers whether anything was
   * lost, in half a sentence for the customer.
   */
  failed(tx: pg.PoolClient, context: SettleContext, failure: Failure): Promise<string | undefined>
}

/**
 * What the operation acts on is in a state from which its table allows no such settlement: it was moved by something else.
 * `succeeded` and `failed` throw it before they write anything.
 */
export class StateMismatch extends Error {
  override readonly name = 'StateMismatch'
}

type Undo = Required<Pick<Step, 'undo' | 'putOff'>>

/** Names a step that has an undo, or says why it has none: the type makes forgetting impossible. */
export const step = (given: Step & (Undo | { noUndo: string })): Step => given

// What an operation is made of: steps, each with an undo or a stated reason for none. No word of desktops.
import type { Refusal } from '@dormouse/contract'
import type pg from 'pg'
import type { OperationRow } from './store.ts'

/** What the steps of an operation have found out so far; kept in the database between them. */
export type Findings = Record<string, unknown>

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

export interface Failure {
  code: Refusal['code']
  /** For the customer: what happened, whether anything was lost, what to do. No word of a host or its hypervisor. */
  detail: string
  /** For operators, in the words of whatever failed. */
  cause: string
}

type Undo = Required<Pick<Step, 'undo' | 'putOff'>>

/** Names a step that has an undo, or says why it has none: the type makes forgetting impossible. */
export const step = (given: Step & (Undo | { noUndo: string })): Step => given

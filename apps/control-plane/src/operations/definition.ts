// What an operation consists of: steps, each with an undo or a stated reason for having none. Knows no desktop.
import type { OperationPhase as Phase } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { Abandoned, type Failure, type Findings } from './failures.ts'
import type { NewOperation, OperationRow } from './store.ts'

export interface StepContext {
  operation: OperationRow
  findings: Findings
  /** The current leader's; part of every command. */
  epoch: number
  /** Aborted when leadership is lost or a later request supersedes the operation. */
  signal: AbortSignal
  /** Milliseconds until the operation's deadline; for an undo, what one attempt may take. */
  remainingMs: number
  /** Milliseconds since the operation was accepted. */
  ageMs: number
  /**
   * For a step that `advances`: stores in the step's own transaction what it has found, and that the next step begins.
   * Throws if the operation has settled meanwhile.
   */
  advance(tx: Db, found: Findings): Promise<void>
  /**
   * Stores in a transaction what the step has found so far, so that a repetition on another replica goes on from there. Throws
   * if the operation has settled meanwhile.
   */
  note(tx: Db, found: Findings): Promise<void>
}

/** How far an operation has come. */
export type Position = Pick<OperationRow, 'input' | 'step' | 'findings'>

/** What a first step does in the transaction that accepts its operation. */
export interface Opening {
  found: Findings
  /** Sends its statements before it waits for the first. One fails as a guard if the step is not possible. */
  write(tx: Db): Promise<unknown>
}

/** What is passed to the transaction that settles the operation. */
export type SettleContext = Pick<StepContext, 'operation' | 'findings' | 'epoch'>

export interface Step {
  name: string
  /** What callers see while the step runs and its host has reported nothing more exact. */
  phase: Phase | ((operation: Position) => Phase)
  /** It changes the database only, and calls `advance` in its transaction. So it needs no mark of its own before it runs. */
  advances?: true
  /** Whether there is nothing to do for this operation: the step needs no mark. */
  idle?(operation: Position): boolean
  /** May run twice, so it must ask for a result, not for an action. What it returns is added to the findings. */
  run(context: StepContext): Promise<Findings | undefined>
  /** Takes the step back, wherever it failed. May run twice, too. */
  undo?(context: StepContext): Promise<Findings | undefined>
  /** The findings if the undo does not succeed before the deadline. `failed` must then store the undo for later. */
  deferred?: Findings
  /** Why there is nothing to take back. */
  noUndo?: string
}

export interface OperationDefinition {
  kind: string
  /** Waits only for others that overtake, and not for the rest. */
  overtakes?: true
  steps: Step[]
  /** The host that does the work, once one is known. Its progress reports count. */
  hostOf(operation: Position): string | null
  /** Another host that does a part of the work: its progress reports count, too. */
  helperOf?(operation: Position): string | null | undefined
  /**
   * Locks what the operation acts on. It is locked before the operation's own row, in the order in which a request that
   * supersedes the operation locks them. Two orders would deadlock.
   */
  lock(tx: Db, operation: OperationRow): Promise<unknown>
  /**
   * Runs the first step, one that `advances`, in the transaction that accepts the operation. Undefined if it cannot run
   * there; it then runs later, and tells why it fails.
   */
  opens?(operation: NewOperation): Opening | undefined
  /** Whether requests may wait behind it. They begin once it has settled. */
  precedes?(operation: OperationRow): boolean
  /** Whether it can still be undone for a request that waits behind it. It then fails with `superseded`. */
  givesWay?(operation: Position): boolean
  /** The operation for which it was begun, which waits behind it. It does not give way to that one. */
  begunFor?(operation: Position): string | undefined
  /** Whether nothing is left of it after this failure: its requester is part of the service, and tries again. */
  vanishes?(operation: OperationRow, failure: Failure): boolean
  /** The last step: writes the new state in the transaction that settles the operation. */
  succeeded(tx: Db, context: SettleContext): Promise<unknown>
  /**
   * The same where the commit is sent right behind. Sends all statements before it waits for the first, the one that locks what
   * the operation acts on before the others. One fails as a guard if the state does not allow it; `succeeded` then runs.
   */
  succeededAtOnce?(tx: Db, context: SettleContext): Promise<unknown>
  /** What the operation answers once it has succeeded. */
  resultOf(context: SettleContext): Record<string, unknown>
  /** Runs after a success is committed. It may get lost: recovery repeats it. */
  afterwards?(context: SettleContext): Promise<void>
  /**
   * Runs instead of `succeeded`, after the undos: puts what the operation acted on into a state that is true. Answers what
   * was lost, in half a sentence for the customer.
   */
  failed(tx: Db, context: SettleContext, failure: Failure): Promise<string | undefined>
}

/**
 * What the operation acts on is in a state from which its table allows no such settlement: it was moved by something else.
 * `succeeded` and `failed` throw it before they write anything.
 */
export class StateMismatch extends Error {
  override readonly name = 'StateMismatch'
}

/** A step has stored that its operation waits behind another one, which is to run first. Nothing else is written. */
export class WaitsBehind extends Abandoned {
  readonly first: OperationRow

  constructor(first: OperationRow) {
    super(`it waits behind ${first.kind} ${first.id}`)
    this.first = first
  }
}

type Undo = Required<Pick<Step, 'undo' | 'deferred'>>

/** A step with an undo, or with the reason why it has none. The type does not allow neither. */
export const step = (given: Step & (Undo | { noUndo: string })): Step => given

/** The next step that has something to do. */
export const nextStep = ({ steps }: OperationDefinition, row: Position): number =>
  steps.findIndex((step, at) => at > row.step && !step.idle?.(row))

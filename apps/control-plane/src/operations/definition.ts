// What an operation consists of: what it stores, and steps, each with an undo or a stated reason for having none. Knows no
// desktop.
import type { OperationResult, OperationPhase as Phase } from '@dormouse/contract'
import { z } from 'zod'
import type { Db } from '../db/pool.ts'
import { Abandoned, type Failure } from './failures.ts'
import type { NewOperation, OperationRow } from './store.ts'

/** What the steps of an operation have found so far. Each kind of operation extends it; each field may be missing. */
export const findings = z.object({
  /** Why something was deferred, for operators. */
  why: z.string().optional(),
})
export type Findings = z.infer<typeof findings>

/** How far an operation has come. */
export type Position<I = object, F = Findings> = Pick<OperationRow<I, F>, 'input' | 'step' | 'findings'>

/** What is passed to the transaction that settles the operation. */
export interface SettleContext<I = object, F = Findings> {
  operation: OperationRow<I, F>
  /** The current leader's; part of every command. */
  epoch: number
}

export interface StepContext<I = object, F = Findings> extends SettleContext<I, F> {
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
  advance(tx: Db, found: F): Promise<void>
  /**
   * Stores in a transaction what the step has found so far, so that a repetition on another replica goes on from there. Throws
   * if the operation has settled meanwhile.
   */
  note(tx: Db, found: F): Promise<void>
}

/** What a first step does in the transaction that accepts its operation. */
export interface Opening<F> {
  found: F
  /** Sends its statements before it waits for the first. One fails as a guard if the step is not possible. */
  write(tx: Db): Promise<unknown>
}

/** A step with an undo, or with the reason why it has none. The type does not allow neither. */
export type Step<I = object, F = Findings> = StepBody<I, F> &
  (Undo<I, F> | { noUndo: string; undo?: never; deferred?: never })

interface StepBody<I, F> {
  name: string
  /** What callers see while the step runs and its host has reported nothing more exact. */
  phase(operation: Position<I, F>): Phase
  /** It changes the database only, and calls `advance` in its transaction. So it needs no mark of its own before it runs. */
  advances?: true
  /** Whether there is nothing to do for this operation: the step needs no mark. */
  idle?(operation: Position<I, F>): boolean
  /** May run twice, so it must request a result, not an action. What it returns is added to the findings. */
  run(context: StepContext<I, F>): Promise<F | undefined>
}

interface Undo<I, F> {
  /** Takes the step back, wherever it failed. May run twice, too. */
  undo(context: StepContext<I, F>): Promise<F | undefined>
  /** The findings if the undo does not succeed before the deadline. `failed` must then store the undo for later. */
  deferred: F
}

export interface OperationDefinition<I = object, F = Findings> {
  kind: string
  /** The parameters of the request, and what the operation needs from the moment at which it was accepted. */
  input: z.ZodType<I>
  findings: z.ZodType<F>
  /** Waits only for others that overtake, and not for the rest. */
  overtakes?: true
  steps: Step<I, F>[]
  /** The host that does the work, once one is known. Its progress reports count. */
  hostOf(operation: Position<I, F>): string | null
  /** Another host that does a part of the work: its progress reports count, too. */
  helperOf?(operation: Position<I, F>): string | undefined
  /**
   * Locks what the operation acts on. It is locked before the operation's own row, in the order in which a request that
   * supersedes the operation locks them. Two orders would deadlock.
   */
  lock(tx: Db, operation: OperationRow): Promise<unknown>
  /**
   * Runs the first step, one that `advances`, in the transaction that accepts the operation. Undefined if it cannot run there;
   * it then runs later, and fails there if it must.
   */
  opens?(operation: NewOperation<I>): Opening<F> | undefined
  /** Whether requests may wait behind it. They begin once it has settled. */
  precedes?(operation: OperationRow): boolean
  /** Whether it can still be undone for a request that waits behind it. It then fails with `superseded`. */
  givesWay?(operation: Position<I, F>): boolean
  /** The operation for which it was begun, which waits behind it. It is not undone for that one. */
  begunFor?(operation: Position<I, F>): string | undefined
  /** Whether nothing is left of it after this failure: its requester is part of the service, and tries again. */
  vanishes?(operation: OperationRow<I, F>, failure: Failure): boolean
  /** The last step: writes the new state in the transaction that settles the operation. */
  succeeded(tx: Db, context: SettleContext<I, F>): Promise<unknown>
  /**
   * The same, if the commit is sent right behind. Sends all statements before it waits for the first; the statement that locks
   * what the operation acts on comes first. If the state does not allow it, a statement fails as a guard; `succeeded` then
   * runs.
   */
  succeededAtOnce?(tx: Db, context: SettleContext<I, F>): Promise<unknown>
  /** What the operation returns once it has succeeded. */
  resultOf(operation: OperationRow<I, F>): Omit<OperationResult, 'duration_ms'>
  /** Runs after a success is committed. It may get lost: recovery repeats it. */
  afterwards?(context: SettleContext<I, F>): Promise<void>
  /**
   * Runs instead of `succeeded`, after the undos: puts what the operation acted on into a state that is true. Returns what was
   * lost, in half a sentence for the customer.
   */
  failed(tx: Db, context: SettleContext<I, F>, failure: Failure): Promise<string | undefined>
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

/** A stored operation as its steps see it. Throws if it does not fit the definition. */
export const read = <I, F>(definition: OperationDefinition<I, F>, row: OperationRow): OperationRow<I, F> => ({
  ...row,
  input: definition.input.parse(row.input),
  findings: definition.findings.parse(row.findings),
})

/** What earlier steps must have found. A missing one is a bug. */
export function requireFound<F extends object, K extends keyof F>(
  { findings }: { findings: F },
  ...names: K[]
): { [N in K]-?: NonNullable<F[N]> } {
  for (const name of names) if (findings[name] === undefined) throw new Error(`no step has found ${String(name)}`)
  return findings as { [N in K]-?: NonNullable<F[N]> }
}

/** The next step that has something to do. */
export const nextStep = ({ steps }: OperationDefinition, row: Position): number =>
  steps.findIndex((step, at) => at > row.step && !step.idle?.(row))

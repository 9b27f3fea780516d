// What an operation on a desktop knows of the moment it was accepted, and the fence that its commands carry.
import { desktopSpec, desktopState, type Fence, id, idleCondition, isOvertaken, Refusal } from '@dormouse/contract'
import { z } from 'zod'
import type { StepContext } from '../../operations/definition.ts'
import type { OperationRow } from '../../operations/store.ts'

const input = z.object({
  from: desktopState,
  discardMemory: z.boolean(),
  hostId: id.nullable(),
  spec: desktopSpec,
  /** The host that an operator has named for the first wake. */
  onHost: id.optional(),
  /** A wake behind a move that it has begun: it wakes on the host that the desktop then has. */
  staysThere: z.boolean().optional(),
  /** Of a hibernation by idle: its host checks this once more. */
  ifIdle: idleCondition.optional(),
})
export type Input = z.infer<typeof input>

export const inputOf = (context: { operation: Pick<OperationRow, 'input'> }): Input =>
  input.parse(context.operation.input)

/** Whether the caller gave up the saved memory. False once retention has emptied the input of an old operation. */
export const discardsMemory = ({ input: stored }: Pick<OperationRow, 'input'>): boolean =>
  input.pick({ discardMemory: true }).safeParse(stored).data?.discardMemory ?? false

/** Everything a host needs to tell this command from an earlier or a later one. */
export function fenceOf({
  operation,
  epoch,
  remainingMs,
}: Pick<StepContext, 'operation' | 'epoch' | 'remainingMs'>): Fence {
  const { desktopId, generation, turn, id: operationId } = operation
  return { desktopId, epoch, generation, turn, operationId, deadlineMs: Math.ceil(remainingMs) }
}

/** The host keeps the deadline itself and knows the cause better, so it gets the time to report it. */
const answerMarginMs = 2_000

/** The options of a step's command: it lasts as long as the operation may take, and no longer than the operation is ours. */
export const commandOptions = ({ operation, signal, remainingMs }: StepContext) => ({
  signal,
  timeoutMs: Math.ceil(remainingMs) + answerMarginMs,
  requestId: operation.requestId ?? undefined,
})

/** An undo is deferred at once if the host is unreachable or has already executed a later turn. */
export const cannotBeDoneNow = (error: unknown): boolean =>
  isOvertaken(error, 'request') || (error instanceof Refusal && error.code === 'host_unreachable')

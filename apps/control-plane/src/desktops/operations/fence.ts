// What the commands of an operation carry: the fence, and how long the host's answer may take.
import { type Fence, isOvertaken, Refusal } from '@dormouse/contract'
import type { StepContext } from '../../operations/definition.ts'

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

// What the commands of an operation contain: the fence, and how long the host's answer may take.
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

/** The host enforces the deadline too and knows the cause better, so it gets time to report it. */
const answerMarginMs = 2_000

/** The options of a step's command: it may last as long as the operation, and aborts if the operation is no longer ours. */
export const commandOptions = ({ operation, signal, remainingMs }: StepContext) => ({
  signal,
  timeoutMs: Math.ceil(remainingMs) + answerMarginMs,
  requestId: operation.requestId ?? undefined,
})

/** An undo is deferred at once if the host is unreachable or has already executed a later turn. */
export const cannotBeDoneNow = (error: unknown): boolean =>
  isOvertaken(error, 'request') || (error instanceof Refusal && error.code === 'host_unreachable')

// What an operation on a desktop knows of the moment it was accepted, and the fence its commands carry.
import { desktopSpec, desktopState, type Fence, id } from '@dormouse/contract'
import { z } from 'zod'
import type { StepContext } from '../../operations/definition.ts'

const input = z.object({ from: desktopState, discardMemory: z.boolean(), hostId: id.nullable(), spec: desktopSpec })
export type Input = z.infer<typeof input>

export const inputOf = (context: Pick<StepContext, 'operation'>): Input => input.parse(context.operation.input)

/** Everything a host needs to tell this command from an earlier or a later one. */
export function fenceOf({
  operation,
  epoch,
  remainingMs,
}: Pick<StepContext, 'operation' | 'epoch' | 'remainingMs'>): Fence {
  const { desktopId, generation, turn, id: operationId } = operation
  return { desktopId, epoch, generation, turn, operationId, deadlineMs: Math.ceil(remainingMs) }
}

/** The host keeps the deadline itself, and knows the cause better: it gets the time to say it. */
const answerMarginMs = 2_000

/** How a step asks the host: as long as the operation may take, and no longer than it is ours. */
export const asking = ({ operation, signal, remainingMs }: StepContext) => ({
  signal,
  timeoutMs: Math.ceil(remainingMs) + answerMarginMs,
  requestId: operation.requestId ?? undefined,
})

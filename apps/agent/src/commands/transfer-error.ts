// How a transfer of a file or picture that ends early is reported.
import { Refusal } from '@dormouse/contract'
import { ChannelLost, DialRefused, LinkLost } from '@dormouse/link'

/** The refusal to return for an error: a transfer that its other end aborts is not an error of the agent. */
export function transferError(error: unknown): unknown {
  if (error instanceof Refusal) return error
  // A stream that had several reasons to end throws all of them, the first one first.
  if (error instanceof AggregateError) return transferError(error.errors[0])
  const lost = [ChannelLost, DialRefused, LinkLost].some((kind) => error instanceof kind)
  const stopped = error instanceof Error && error.name === 'AbortError'
  if (stopped && error.cause instanceof Refusal) return error.cause
  return lost || stopped ? new Refusal('host_unreachable', 'the transfer was interrupted') : error
}

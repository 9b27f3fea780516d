// Dials the channels of a relay back, over which a move passes through the control plane.
import { Refusal, type Relay } from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import type { DialBack } from './handler.ts'

/** All of its channels, in their order; none without a relay. Refuses if one of them cannot be opened. */
export async function dialRelay(relay: Relay | undefined, dialBack: DialBack, signal: AbortSignal): Promise<Channel[]> {
  const dialled = await Promise.allSettled((relay?.channels ?? []).map((token) => dialBack(token, signal)))
  const open = dialled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = dialled.find((one) => one.status === 'rejected')
  if (!failed) return open
  for (const channel of open) channel.destroy()
  const why = 'the control plane could not be reached for the relay of the move'
  throw Object.assign(new Refusal('hypervisor_failed', why), { cause: failed.reason })
}

// Opens a channel to a desktop's screen on its host. Knows neither claims nor RFB.
import type { StreamClaim } from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'

export interface ScreenRequest {
  hostId: string
  desktopId: string
  generation: number
  requestId: string
  claim: StreamClaim
}

/** Asks the host to dial back, and returns the channel; refuses if the host is unreachable or refuses. */
export async function openChannel(
  { links, channels }: { links: Links; channels: Channels },
  { hostId, requestId, ...screen }: ScreenRequest,
  signal: AbortSignal,
): Promise<Channel> {
  const awaited = channels.expect(hostId)
  const asked = links.command(hostId, 'stream.open', { ...screen, channel: awaited.token }, { signal, requestId })
  try {
    return await Promise.race([awaited.channel, asked.then(() => awaited.channel)])
  } catch (error) {
    awaited.cancel()
    throw error
  } finally {
    // Once the channel is open, a failure of the call shows on the channel.
    asked.catch(() => undefined)
  }
}

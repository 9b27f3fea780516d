// A channel to a desktop's screen on its host. Knows neither claims nor what runs over it.
import type { Channel } from '@dormouse/link'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'

export interface HostWish {
  hostId: string
  name: 'stream.open' | 'stream.picture'
  desktopId: string
  generation: number
  requestId: string
}

/** Asks the host to dial back, and answers what it dialled; refuses where it is out of reach or says no. */
export async function openChannel(
  { links, channels }: { links: Links; channels: Channels },
  { hostId, name, desktopId, generation, requestId }: HostWish,
  signal: AbortSignal,
): Promise<Channel> {
  const awaited = channels.expect(hostId)
  const asked = links.command(hostId, name, { desktopId, generation, channel: awaited.token }, { signal, requestId })
  try {
    // A host answers `stream.picture` only when it is read: whichever comes first, the channel or a refusal.
    return await Promise.race([awaited.channel, asked.then(() => awaited.channel)])
  } catch (error) {
    awaited.cancel()
    throw error
  } finally {
    // Its failure after the channel is there shows on the channel.
    asked.catch(() => undefined)
  }
}

// The channels of a guest's SSH connection, and what they may hold of their host's memory. ssh2 turns what a server does
// against the rules into error events, which end the process where nobody listens; and it takes more than the window that
// it gave. What it keeps of its channels is not public: ssh-channels.test.ts fails where a later ssh2 keeps it elsewhere.
import type { Readable } from 'node:stream'
import type { Client, ClientChannel } from 'ssh2'

interface Inside {
  _chanMgr: {
    _count: number
    /** By its number: a channel, or who waits for one. */
    _channels: Record<string, unknown>
    update(id: number, channel: ClientChannel): void
  }
}

/** Each piece counts as so many bytes more: one of a single byte takes memory too, and a file's pieces are far larger. */
const pieceBytes = 2 * 1024

/**
 * Gives each channel its error listeners when ssh2 makes it: it hands a channel out only once its command has begun, and a
 * server may speak before. What becomes of the command is told by the channel's exit and close.
 */
export function guardChannels(client: Client): void {
  const channels = inside(client)
  const update = channels.update.bind(channels)
  channels.update = (id, channel) => {
    for (const stream of [channel, channel.stderr]) stream.on('error', () => undefined)
    update(id, channel)
  }
}

/** How many are open, or were asked for and not answered. */
export const openChannels = (client: Client): number => inside(client)._count

/** How much their servers have said that nobody has read. */
export function unreadBytes(client: Client): number {
  const channels = Object.values(inside(client)._channels).filter((one) => typeof one === 'object')
  return (channels as ClientChannel[])
    .flatMap((channel) => [channel, channel.stderr])
    .reduce((sum, stream) => sum + stream.readableLength + piecesOf(stream) * pieceBytes, 0)
}

/** Drops whatever still comes: only a channel that is read comes to its end. */
export function drain(channel: ClientChannel): void {
  for (const stream of [channel, channel.stderr]) stream.removeAllListeners('data').resume()
}

/** Closes a channel, whatever is still on its way. */
export function hangUp(channel: ClientChannel): void {
  drain(channel)
  channel.close()
}

/** Node's types leave it out. */
const piecesOf = (stream: Readable) => (stream as unknown as { readableBuffer: unknown[] }).readableBuffer.length

const inside = (client: Client) => (client as unknown as Inside)._chanMgr

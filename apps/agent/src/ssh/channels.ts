// The channels of a guest's SSH connection, and how much of the host's memory they may hold. ssh2 turns a server's
// violations of the protocol into error events, which end this process if nothing listens, and accepts more than the
// window that it granted. Its list of channels is not public: hostile.test.ts fails if a later ssh2 keeps it elsewhere.
import type { Readable } from 'node:stream'
import type { Client, ClientChannel } from 'ssh2'
import type { GuestChannel } from '../driver/guest-connection.ts'

interface Internals {
  _chanMgr: {
    _count: number
    /** By number: a channel, or the callback that waits for one. */
    _channels: Record<string, unknown>
    update(id: number, channel: ClientChannel): void
  }
  /** Begins the time until the next keepalive again. */
  _resetKA(): void
}

/** Added to the size of each chunk: a chunk of one byte takes memory too. The chunks of a file are far larger. */
const chunkOverheadBytes = 2 * 1024

/**
 * Adds error listeners to each channel when ssh2 creates it. ssh2 hands a channel out only once its command has started,
 * and a server may send something before. A command's outcome is known by the channel's exit and close events.
 */
export function guardChannels(client: Client): void {
  const channels = internals(client)
  const update = channels.update.bind(channels)
  channels.update = (id, channel) => {
    for (const stream of [channel, channel.stderr]) stream.on('error', () => undefined)
    update(id, channel)
  }
}

/** How many channels are open or requested. */
export const openChannelCount = (client: Client): number => internals(client)._count

/** What the server has sent on a channel and nobody has read yet. */
export interface Unread {
  channel: ClientChannel
  bytes: number
  /** How much memory that takes. */
  heldBytes: number
}

/** The unread bytes of each open channel. */
export function unreadOf(client: Client): Unread[] {
  const channels = Object.values(internals(client)._channels).filter((one) => typeof one === 'object')
  return (channels as ClientChannel[]).map((channel) => {
    const bytes = channel.readableLength + channel.stderr.readableLength
    const chunks = chunkCount(channel) + chunkCount(channel.stderr)
    return { channel, bytes, heldBytes: bytes + chunks * chunkOverheadBytes }
  })
}

/** Discards whatever still comes. A channel that is not read never ends. */
export function discardOutput(channel: GuestChannel): void {
  for (const stream of [channel, channel.stderr]) stream.removeAllListeners('data').resume()
}

/** Closes a channel, whatever is still in flight. */
export function closeChannel(channel: GuestChannel): void {
  discardOutput(channel)
  channel.close()
}

/** Node's types do not have it. */
const chunkCount = (stream: Readable) => (stream as unknown as { readableBuffer: unknown[] }).readableBuffer.length

/** Called more often than keepalives are sent, none is sent. */
export const postponeKeepalive = (client: Client): void => (client as unknown as Internals)._resetKA()

const internals = (client: Client) => (client as unknown as Internals)._chanMgr

// The messages of an exec's socket: a byte that names the channel, then bytes or JSON. Knows no exec.
import { type AttachNote, type AttachRequest, attachChannels, attachRequest, type ExecStream } from '@dormouse/contract'
import type { RawData, WebSocket } from 'ws'
import { sent } from '../streams/relay.ts'
import { type Ending, unreadable } from './endings.ts'

export type FromClient = { stdin: Buffer } | AttachRequest

/** Thrown for what a client may not send. */
export class AttachBreach extends Error {
  readonly ending: Ending

  constructor(why: string) {
    super(why)
    this.ending = unreadable(why)
  }
}

/** A message of `control` is short. */
const controlMaxBytes = 4 * 1024

export function readMessage(data: RawData, isBinary: boolean): FromClient {
  const bytes = data as Buffer
  if (!isBinary || bytes.length === 0) throw new AttachBreach('a message must be a binary frame with a channel byte')
  const [channel] = bytes
  if (channel === attachChannels.stdin) return { stdin: bytes.subarray(1) }
  if (channel !== attachChannels.control) throw new AttachBreach(`a client may not send on channel ${channel}`)
  if (bytes.length > controlMaxBytes) throw new AttachBreach('a message of the control channel is too long')
  const read = attachRequest.safeParse(parsed(bytes.toString('utf8', 1)))
  if (!read.success) throw new AttachBreach('a message of the control channel is not valid')
  return read.data
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

export function sendNote(socket: WebSocket, note: AttachNote): void {
  if (socket.readyState !== socket.OPEN) return
  socket.send(Buffer.concat([Buffer.of(attachChannels.control), Buffer.from(JSON.stringify(note))]))
}

/** Resolves when the bytes were handed to the network. */
export function sendOutput(socket: WebSocket, stream: ExecStream, bytes: Buffer): Promise<void> {
  return sent(socket, Buffer.concat([Buffer.of(attachChannels[stream]), bytes]))
}

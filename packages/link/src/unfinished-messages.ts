// Counts what a client has sent of WebSocket messages that are not whole: the receiver keeps it until they are.
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { closeSocket } from './sockets.ts'

/** Less is not counted: the number of connections bounds it. */
const stepBytes = 16 * 1024
/** The head of a control frame from a client. */
const controlHeadBytes = 6

/** Holds bytes while they are kept; throws above a limit. */
export type HoldBytes = (bytes: number) => Disposable

/** To be called before anything is read. `raw` carries the socket. A client above the limit is closed with 1013. */
export function countUnfinished(socket: WebSocket, raw: Duplex, hold: HoldBytes): void {
  let unfinished = 0
  let held: Disposable[] = []
  const release = () => {
    unfinished = 0
    for (const one of held) one[Symbol.dispose]()
    held = []
  }
  const received = (chunk: Buffer) => {
    unfinished += chunk.length
    try {
      while (unfinished >= (held.length + 1) * stepBytes) held.push(hold(stepBytes))
    } catch {
      raw.off('data', received)
      socket.pause()
      void closeSocket(socket, 1013, 'too many bytes of unfinished messages; send each message at once, then retry')
    }
  }
  // A control frame may come between the parts of a message.
  const control = (data: RawData) => {
    unfinished = Math.max(0, unfinished - controlHeadBytes - (data as Buffer).length)
  }
  // First: the receiver's own listener emits the messages that a chunk completes.
  raw.prependListener('data', received)
  socket.on('message', release).on('ping', control).on('pong', control)
  socket.once('close', release)
}

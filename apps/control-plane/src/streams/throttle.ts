// Limits how fast a client's messages are read. More than hands and programs need, and enough to keep a replica busy, waits
// for the next second; nothing is lost. Knows no RFB.
import type { WebSocket } from 'ws'

const perSecond = { messages: 4_000, bytes: 4 * 1024 * 1024 }

/** Pauses a socket while there is at least one reason to. */
export class SocketPause {
  readonly #socket: WebSocket
  readonly #holds = new Set<string>()

  constructor(socket: WebSocket) {
    this.#socket = socket
  }

  hold(why: string): void {
    this.#holds.add(why)
    this.#socket.pause()
  }

  release(why: string): void {
    this.#holds.delete(why)
    if (this.#holds.size === 0) this.#socket.resume()
  }
}

/** Pauses the socket for the rest of each second in which it received too much. */
export function throttle(socket: WebSocket, pause: SocketPause): void {
  let messages = 0
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const begin = () => {
    messages = bytes = 0
    timer = undefined
    pause.release('rate')
  }
  socket.on('message', (data: Buffer) => {
    timer ??= setTimeout(begin, 1_000)
    messages += 1
    bytes += data.length
    if (messages >= perSecond.messages || bytes >= perSecond.bytes) pause.hold('rate')
  })
  socket.once('close', () => clearTimeout(timer))
}

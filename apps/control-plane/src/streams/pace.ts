// How fast a viewer is heard. Whoever says more than hands and programs need, and enough to keep a replica busy, is heard a
// moment later; nothing of it is lost. Knows no RFB.
import type { WebSocket } from 'ws'

const perSecond = { messages: 4_000, bytes: 4 * 1024 * 1024 }

/** A socket that is not read while anybody holds it back. */
export class Brake {
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

/** Holds the socket back for the rest of each second in which too much was said. */
export function keepPace(socket: WebSocket, brake: Brake): void {
  let messages = 0
  let bytes = 0
  let timer: NodeJS.Timeout | undefined
  const begin = () => {
    messages = bytes = 0
    timer = undefined
    brake.release('pace')
  }
  socket.on('message', (data: Buffer) => {
    timer ??= setTimeout(begin, 1_000)
    messages += 1
    bytes += data.length
    if (messages >= perSecond.messages || bytes >= perSecond.bytes) brake.hold('pace')
  })
  socket.once('close', () => clearTimeout(timer))
}

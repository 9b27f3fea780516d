// One end of a link that keeps no rule: it numbers its frames only if it is told to, and sends whatever it is given. It reads
// all, and repeats nothing.
import type { WebSocket } from 'ws'

export interface HeardFrame {
  n?: number
  type?: string
  to?: number
  name?: string
  payload?: unknown
}

/** How long the other side may take for what it answers at once. */
const patienceMs = 20_000

export class RawLink {
  readonly socket: WebSocket
  /** Called for each call that comes. */
  onCall: (frame: HeardFrame) => void = () => undefined
  /** The largest refusal that was heard, in bytes. */
  largestRefusal = 0
  closed: string | undefined
  #n = 0
  readonly #waiting = new Map<number, () => void>()
  readonly #gone = Promise.withResolvers<void>()

  constructor(socket: WebSocket) {
    this.socket = socket
    socket.on('error', () => undefined)
    socket.on('message', (data) => this.#hear(String(data)))
    socket.on('close', (code) => {
      this.closed = `closed ${code}`
      this.#gone.resolve()
    })
  }

  /** Says it with the number that is due; answers that number. */
  say(saying: object): number {
    this.raw(JSON.stringify({ n: ++this.#n, ...saying }))
    return this.#n
  }

  raw(words: string | Buffer): void {
    this.socket.send(words, () => undefined)
  }

  /** Whether the other side, within its patience, has answered what was said before, or has closed. */
  async settled(): Promise<boolean> {
    if (this.socket.readyState !== this.socket.OPEN) return true
    const answered = Promise.withResolvers<void>()
    this.#waiting.set(this.say({ type: 'call', name: 'is-anybody-there' }), () => answered.resolve())
    const late = Promise.withResolvers<false>()
    const timer = setTimeout(() => late.resolve(false), patienceMs)
    const settled = await Promise.race([answered.promise, this.#gone.promise, late.promise])
    clearTimeout(timer)
    return settled !== false
  }

  #hear(text: string): void {
    const frame = JSON.parse(text) as HeardFrame
    if (frame.type === 'refused') this.largestRefusal = Math.max(this.largestRefusal, text.length)
    if (frame.to !== undefined) this.#waiting.get(frame.to)?.()
    if (frame.type === 'call') this.onCall(frame)
  }
}

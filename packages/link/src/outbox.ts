// What one side says, on its way out: numbered in the order it leaves, and bounded. Large frames go one after another, so
// that a small one, be it a sign of life, never waits behind more than one of them. Knows no call and no answer.
import type { WebSocket } from 'ws'
import { FrameTooLarge, LinkLost } from './errors.ts'
import { encodeSaying, numbered, type Saying } from './frames.ts'

export interface OutboxLimits {
  maxFrameBytes: number
  /** Unsent bytes at which small frames are too many. */
  maxBufferedBytes: number
}

/** One large frame, until it has left. */
interface Turn {
  text: string
  onSent: (n: number) => void
  onLost: (lost: LinkLost) => void
}

const largeBytes = 64 * 1024

export class Outbox {
  readonly #socket: WebSocket
  readonly #limits: OutboxLimits
  readonly #waiting = new Set<Turn>()
  #sent = 0

  constructor(socket: WebSocket, limits: OutboxLimits) {
    this.#socket = socket
    this.#limits = limits
  }

  /** The number of the frame that was sent last. */
  get sent(): number {
    return this.#sent
  }

  /** Whether the other side reads too slowly for one more frame. */
  get full(): boolean {
    return this.#socket.bufferedAmount > this.#limits.maxBufferedBytes
  }

  /** Sends now, whatever its size, and answers its number. Throws FrameTooLarge, and what JSON throws. */
  say(saying: Saying): number {
    const { text } = this.#encode(saying)
    return this.#send(text)
  }

  /**
   * Sends now where it is small, and else in its turn; `onSent` hears its number, `onLost` that it never had its turn.
   * What is answered takes a frame back, and says whether it was still there. Throws FrameTooLarge, and what JSON throws.
   */
  sayInTurn(saying: Saying, onSent: Turn['onSent'], onLost: Turn['onLost']): () => boolean {
    const { text, bytes } = this.#encode(saying)
    if (bytes < largeBytes) {
      onSent(this.#send(text))
      return () => false
    }
    const turn: Turn = { text, onSent, onLost }
    this.#waiting.add(turn)
    this.#goOn()
    return () => this.#waiting.delete(turn)
  }

  /** Nothing leaves any more. */
  lose(reason: string): void {
    const lost = new LinkLost(false, reason)
    for (const { onLost } of this.#waiting) onLost(lost)
    this.#waiting.clear()
  }

  #encode(saying: Saying): { text: string; bytes: number } {
    const text = encodeSaying(saying)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#limits.maxFrameBytes) throw new FrameTooLarge(bytes, this.#limits.maxFrameBytes)
    return { text, bytes }
  }

  #send(text: string): number {
    this.#sent += 1
    this.#socket.send(numbered(this.#sent, text), () => this.#goOn())
    return this.#sent
  }

  #goOn(): void {
    for (const turn of this.#waiting) {
      if (this.#socket.bufferedAmount >= largeBytes) return
      this.#waiting.delete(turn)
      turn.onSent(this.#send(turn.text))
    }
  }
}

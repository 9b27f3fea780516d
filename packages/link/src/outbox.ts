// The frames that one side sends: numbered as they leave, and limited in what is unsent. Large frames are sent one at a
// time, so that a small one, such as a heartbeat, waits behind at most one of them. Knows no call and no reply.
import type { WebSocket } from 'ws'
import { FrameTooLarge, LinkLost } from './errors.ts'
import { encodeMessage, type Message, numbered } from './frames.ts'

export interface OutboxLimits {
  maxFrameBytes: number
  /** Unsent bytes above which the other side reads too slowly. */
  maxBufferedBytes: number
}

/** A large frame that waits to be sent. */
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

  /** Whether too much is unsent for another frame. */
  get full(): boolean {
    return this.#socket.bufferedAmount > this.#limits.maxBufferedBytes
  }

  /** Sends at once, whatever the size, and returns the frame's number. Throws FrameTooLarge, and what JSON throws. */
  send(message: Message): number {
    const { text } = this.#encode(message)
    return this.#write(text)
  }

  /**
   * Sends a small frame at once and a large one in its turn. `onSent` gets its number; `onLost` is called if it is never
   * sent. Returns a function that withdraws the frame, and returns whether it was still waiting. Throws FrameTooLarge, and
   * what JSON throws.
   */
  sendInTurn(message: Message, onSent: Turn['onSent'], onLost: Turn['onLost']): () => boolean {
    const { text, bytes } = this.#encode(message)
    if (bytes < largeBytes) {
      onSent(this.#write(text))
      return () => false
    }
    const turn: Turn = { text, onSent, onLost }
    this.#waiting.add(turn)
    this.#sendNext()
    return () => this.#waiting.delete(turn)
  }

  /** The link is lost: nothing more is sent. */
  lose(reason: string): void {
    const lost = new LinkLost(false, reason)
    for (const { onLost } of this.#waiting) onLost(lost)
    this.#waiting.clear()
  }

  #encode(message: Message): { text: string; bytes: number } {
    const text = encodeMessage(message)
    const bytes = Buffer.byteLength(text)
    if (bytes > this.#limits.maxFrameBytes) throw new FrameTooLarge(bytes, this.#limits.maxFrameBytes)
    return { text, bytes }
  }

  #write(text: string): number {
    this.#sent += 1
    this.#socket.send(numbered(this.#sent, text), () => this.#sendNext())
    return this.#sent
  }

  #sendNext(): void {
    for (const turn of this.#waiting) {
      if (this.#socket.bufferedAmount >= largeBytes) return
      this.#waiting.delete(turn)
      turn.onSent(this.#write(turn.text))
    }
  }
}

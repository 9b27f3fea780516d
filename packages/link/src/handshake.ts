// A short exchange of texts on an open socket, before the socket is used: one side proves who it is. Bounded in time and
// in bytes. Knows no credential.
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { DialRefused } from './errors.ts'
import { closeSocket } from './sockets.ts'
import { UpgradeRefusal } from './upgrades.ts'

export interface HandshakeLimits {
  /** How long the other side may take for each of its texts. */
  timeoutMs?: number
  /** What the other side may send in all until the handshake is over. */
  maxBytes?: number
  /** The socket below: its bytes count too, so that a frame that never ends is noticed. */
  raw?: Duplex
}

const defaults = { timeoutMs: 5_000, maxBytes: 4_096 }

const outOfTurn = 'it spoke out of turn'

/** A refusal closes the socket with its HTTP status above this. */
const statusBase = 4_000

/** One side of the exchange. Each side speaks in its turn. */
export interface Handshake {
  /** The subprotocol that both sides speak; empty where there is none. */
  readonly protocol: string
  say(text: string): void
  /** The other side's next text. Rejects with DialRefused where none comes. */
  hear(): Promise<string>
}

/**
 * Runs `work` on a socket that nobody uses yet, and answers what it answers. The socket is then free: use it in the same
 * tick. Where `work` fails or answers an UpgradeRefusal, the socket is closed and the handshake rejects with DialRefused.
 */
export async function shakeHands<T>(
  socket: WebSocket,
  limits: HandshakeLimits,
  work: (hands: Handshake) => Promise<T | UpgradeRefusal>,
): Promise<T> {
  const hands = new Hands(socket, limits)
  try {
    const answer = await work(hands)
    if (answer instanceof UpgradeRefusal) throw hands.refuse(answer)
    hands.finish()
    return answer
  } catch (error) {
    void closeSocket(socket, 1011, 'the handshake failed')
    throw error
  } finally {
    hands.letGo()
  }
}

class Hands implements Handshake {
  readonly #socket: WebSocket
  readonly #limits: HandshakeLimits & typeof defaults
  /** What nobody has asked for yet. */
  #said: string | undefined
  #listener: { resolve(text: string): void; reject(error: DialRefused): void } | undefined
  #failure: DialRefused | undefined
  #bytes = 0

  constructor(socket: WebSocket, limits: HandshakeLimits) {
    this.#socket = socket
    this.#limits = { ...defaults, ...limits }
    socket.on('message', this.#take).on('close', this.#closed).on('error', this.#failed)
    limits.raw?.on('data', this.#count)
  }

  get protocol(): string {
    return this.#socket.protocol
  }

  say(text: string): void {
    this.#requireOpen()
    this.#socket.send(text)
  }

  async hear(): Promise<string> {
    this.#requireOpen()
    const said = this.#said
    this.#said = undefined
    if (said !== undefined) return said
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#listener = { resolve, reject }
    const { timeoutMs } = this.#limits
    const timer = setTimeout(() => this.#breach(1008, `nothing was said within ${timeoutMs} ms`), timeoutMs)
    return promise.finally(() => clearTimeout(timer))
  }

  /** What was said too early would be lost now. */
  finish(): void {
    if (this.#said !== undefined) this.#breach(1008, outOfTurn)
    this.#requireOpen()
  }

  #requireOpen(): void {
    if (this.#failure) throw this.#failure
    if (this.#socket.readyState !== this.#socket.OPEN) throw new DialRefused('the socket is closing')
  }

  /** Says no, and answers the error that stands for it. */
  refuse({ status, detail }: UpgradeRefusal): DialRefused {
    void closeSocket(this.#socket, statusBase + status, detail)
    return new DialRefused(`answered ${status}: ${detail}`, { status, detail })
  }

  letGo(): void {
    this.#socket.off('message', this.#take).off('close', this.#closed)
    this.#limits.raw?.off('data', this.#count)
  }

  readonly #take = (data: RawData, isBinary: boolean): void => {
    const bytes = data as Buffer
    if (isBinary || this.#said !== undefined) this.#breach(1008, outOfTurn)
    else if (bytes.length > this.#limits.maxBytes) this.#breach(1009, 'it said too much')
    else this.#give(bytes.toString())
  }

  #give(text: string): void {
    const listener = this.#listener
    this.#listener = undefined
    if (listener) listener.resolve(text)
    else this.#said = text
  }

  readonly #count = (chunk: Buffer): void => {
    this.#bytes += chunk.length
    if (this.#bytes <= this.#limits.maxBytes) return
    this.#fail(new DialRefused('it said too much'))
    this.#socket.terminate()
  }

  readonly #closed = (code: number, reason: Buffer): void => {
    const detail = reason.toString() || `the socket closed with ${code}`
    const status = code >= statusBase + 400 && code < statusBase + 600 ? code - statusBase : undefined
    this.#fail(new DialRefused(status ? `answered ${status}: ${detail}` : detail, { status, detail }))
  }

  readonly #failed = (cause: Error): void => this.#fail(new DialRefused(cause.message, { cause }))

  #breach(code: number, reason: string): void {
    this.#fail(new DialRefused(reason))
    void closeSocket(this.#socket, code, reason)
  }

  /** The first failure counts. */
  #fail(failure: DialRefused): void {
    this.#failure ??= failure
    this.#listener?.reject(this.#failure)
    this.#listener = undefined
  }
}

// A short exchange of texts on a new socket, in which one side proves its identity. Limited in time and in bytes. Knows no
// credential.
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket } from 'ws'
import { DialRefused } from './errors.ts'
import { closeSocket } from './sockets.ts'
import { UpgradeRefusal } from './upgrades.ts'

export interface HandshakeLimits {
  /** How long the other side may take to send each of its texts. */
  timeoutMs?: number
  /** How much the other side may send in the whole handshake. */
  maxBytes?: number
  /** The underlying socket. Its bytes count too, so that an endless frame is detected. */
  raw?: Duplex
}

const defaults = { timeoutMs: 5_000, maxBytes: 4_096 }

const outOfTurn = 'a text out of turn'

/** A refusal closes the socket with this plus its HTTP status. */
const statusBase = 4_000

/** One side of the exchange. The sides send in turn. */
export interface Handshake {
  /** The negotiated subprotocol; empty if there is none. */
  readonly protocol: string
  say(text: string): void
  /** The other side's next text. Rejects with DialRefused if none arrives. */
  hear(): Promise<string>
}

/**
 * Runs `work` on a new socket and returns its result. Use the socket in the same tick. If `work` throws or returns an
 * UpgradeRefusal, the socket is closed; for a refusal, the handshake rejects with DialRefused.
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
    hands.detach()
  }
}

class Hands implements Handshake {
  readonly #socket: WebSocket
  readonly #limits: HandshakeLimits & typeof defaults
  /** A text that arrived before it was read. */
  #unread: string | undefined
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
    const text = this.#unread
    this.#unread = undefined
    if (text !== undefined) return text
    const { promise, resolve, reject } = Promise.withResolvers<string>()
    this.#listener = { resolve, reject }
    const { timeoutMs } = this.#limits
    const timer = setTimeout(() => this.#breach(1008, `no text within ${timeoutMs} ms`), timeoutMs)
    return promise.finally(() => clearTimeout(timer))
  }

  /** An unread text would be lost now. */
  finish(): void {
    if (this.#unread !== undefined) this.#breach(1008, outOfTurn)
    this.#requireOpen()
  }

  #requireOpen(): void {
    if (this.#failure) throw this.#failure
    if (this.#socket.readyState !== this.#socket.OPEN) throw new DialRefused('the socket is closing')
  }

  /** Closes the socket with the refusal, and returns it as an error. */
  refuse({ status, detail }: UpgradeRefusal): DialRefused {
    void closeSocket(this.#socket, statusBase + status, detail)
    return new DialRefused(`answered ${status}: ${detail}`, { status, detail })
  }

  detach(): void {
    this.#socket.off('message', this.#take).off('close', this.#closed)
    this.#limits.raw?.off('data', this.#count)
  }

  readonly #take = (data: RawData, isBinary: boolean): void => {
    const bytes = data as Buffer
    if (isBinary || this.#unread !== undefined) this.#breach(1008, outOfTurn)
    else if (bytes.length > this.#limits.maxBytes) this.#breach(1009, 'too many bytes')
    else this.#give(bytes.toString())
  }

  #give(text: string): void {
    const listener = this.#listener
    this.#listener = undefined
    if (listener) listener.resolve(text)
    else this.#unread = text
  }

  readonly #count = (chunk: Buffer): void => {
    this.#bytes += chunk.length
    if (this.#bytes <= this.#limits.maxBytes) return
    this.#fail(new DialRefused('too many bytes'))
    this.#socket.terminate()
  }

  readonly #closed = (code: number, reason: Buffer): void => {
    const detail = reason.toString() || `the socket closed with code ${code}`
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

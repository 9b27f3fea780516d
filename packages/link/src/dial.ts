// Keeps one link up: dials, and redials after a loss, with full jitter so that a thousand agents do not redial at once.
// Knows no calls: what was in flight on a lost link is for its caller to retry.
import { EventEmitter, once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import type { WebSocket } from 'ws'
import { DialRefused, LinkLost } from './errors.ts'
import { type Handshake, shakeHands } from './handshake.ts'
import { Peer, type PeerOptions } from './peer.ts'
import { type DialTarget, defaultHandshakeTimeoutMs, defaultMaxFrameBytes, openSocket } from './sockets.ts'

export interface Backoff {
  minMs: number
  maxMs: number
  /** The longest wait after a 403, which only an operator can change; a minute by default. */
  forbiddenMaxMs?: number
}

export interface DialOptions extends Omit<DialTarget, 'signal'>, PeerOptions {
  /** Proves our identity on each new socket. The link is up only after that. */
  prove?: (hands: Handshake) => Promise<void>
  backoff?: Backoff
}

export interface LineEvents {
  /** A link is up. */
  peer: [peer: Peer]
  /** The link is lost; it will be redialled. */
  lost: [reason: string]
  /** An attempt failed; another will follow. */
  refused: [error: DialRefused]
}

const defaultForbiddenMaxMs = 60_000

/** Dials until it is closed. Add listeners in the same tick. */
export function dial(options: DialOptions): Line {
  return new Line(options)
}

/** The longest wait before an attempt (0, 1, 2 …). The wait itself is random, from zero up to this. */
export function backoffCeilingMs({ minMs, maxMs }: Backoff, attempt: number): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(attempt, 30))
}

export class Line extends EventEmitter<LineEvents> {
  readonly #options: DialOptions
  readonly #backoff: Backoff
  readonly #closing = new AbortController()
  readonly #done: Promise<void>
  #peer: Peer | undefined
  /** The other side answered 403: it is redialled rarely. */
  #forbidden = false

  constructor(options: DialOptions) {
    super()
    this.#options = options
    this.#backoff = options.backoff ?? { minMs: 100, maxMs: 5_000 }
    this.#done = this.#keepUp()
  }

  /** The current link. */
  get peer(): Peer | undefined {
    return this.#peer
  }

  /** The current link or the next one. Rejects with the signal's reason, or with LinkLost once the line is closed. */
  async connected(signal?: AbortSignal): Promise<Peer> {
    signal?.throwIfAborted()
    this.#closing.signal.throwIfAborted()
    if (this.#peer) return this.#peer
    const given = signal ? [signal, this.#closing.signal] : [this.#closing.signal]
    const stop = AbortSignal.any(given)
    try {
      const [peer] = await once(this, 'peer', { signal: stop })
      return peer
    } catch (error) {
      throw stop.aborted ? stop.reason : error
    }
  }

  /** Stops dialling and closes the current link. */
  async close(): Promise<void> {
    this.#closing.abort(new LinkLost(false, 'the line is closed'))
    await Promise.all([this.#peer?.close(1000, 'the line is closed'), this.#done])
  }

  async #keepUp(): Promise<void> {
    // Callers add their listeners before the first attempt.
    await Promise.resolve()
    for (let attempt = 0; !this.#closing.signal.aborted; attempt++) {
      const upForMs = await this.#hold().catch((err: unknown) => this.#listenerFailed(err))
      // Only a link that lasted resets the backoff.
      if (upForMs > this.#backoff.maxMs) attempt = 0
      await this.#pause(Math.random() * this.#ceilingMs(attempt))
    }
  }

  #ceilingMs(attempt: number): number {
    if (this.#forbidden) return this.#backoff.forbiddenMaxMs ?? defaultForbiddenMaxMs
    return backoffCeilingMs(this.#backoff, attempt)
  }

  /** A failing listener does not stop the line from redialling. */
  #listenerFailed(err: unknown): number {
    this.#options.log?.error({ err }, 'a listener of a line failed')
    return 0
  }

  /** Opens a link and waits for its end. Returns for how long it was up. */
  async #hold(): Promise<number> {
    this.#forbidden = false
    try {
      const { since, lost } = await this.#open()
      await lost
      return performance.now() - since
    } catch (error) {
      const refused = asDialRefused(error)
      this.#forbidden = refused.status === 403
      if (!this.#closing.signal.aborted) this.emit('refused', refused)
      return 0
    }
  }

  #open(): Promise<{ since: number; lost: Promise<void> }> {
    const target = { ...this.#options, signal: this.#closing.signal }
    const maxPayload = this.#options.maxFrameBytes ?? defaultMaxFrameBytes
    const { prove, handshakeTimeoutMs: timeoutMs = defaultHandshakeTimeoutMs } = this.#options
    return openSocket(target, maxPayload, async (socket) => {
      if (prove) await shakeHands(socket, { timeoutMs }, prove)
      return this.#take(socket)
    })
  }

  #take(socket: WebSocket): { since: number; lost: Promise<void> } {
    const peer = new Peer(socket, this.#options)
    const lost = Promise.withResolvers<void>()
    peer.once('close', (reason) => {
      this.#peer = undefined
      lost.resolve()
      this.emit('lost', reason)
    })
    this.#peer = peer
    this.emit('peer', peer)
    return { since: performance.now(), lost: lost.promise }
  }

  async #pause(waitMs: number): Promise<void> {
    try {
      await sleep(waitMs, undefined, { signal: this.#closing.signal })
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error
    }
  }
}

function asDialRefused(error: unknown): DialRefused {
  if (error instanceof DialRefused) return error
  return new DialRefused('dialling failed', { cause: error })
}

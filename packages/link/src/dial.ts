// Keeps one link up: dials, and dials again after a loss, with full jitter so that a thousand agents do not come at once.
// Knows nothing of calls: what was under way on a lost link is its caller's to ask again.
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
}

export interface DialOptions extends Omit<DialTarget, 'signal'>, PeerOptions {
  /** Goes before each link: proves who dials. A link counts as up only after it. */
  prove?: (hands: Handshake) => Promise<void>
  backoff?: Backoff
}

export interface LineEvents {
  /** A link is up. */
  peer: [peer: Peer]
  /** The link is gone; the next attempt is on its way. */
  lost: [reason: string]
  /** An attempt failed; the next one is on its way. */
  refused: [error: DialRefused]
}

const forbiddenPauseMs = 60_000

/** Starts dialling and keeps at it until closed. Listen for its events in the same tick. */
export function dial(options: DialOptions): Line {
  return new Line(options)
}

/** The longest wait before the given attempt (0, 1, 2 …); the wait itself is anything from zero to it. */
export function backoffCeilingMs({ minMs, maxMs }: Backoff, attempt: number): number {
  return Math.min(maxMs, minMs * 2 ** Math.min(attempt, 30))
}

export class Line extends EventEmitter<LineEvents> {
  readonly #options: DialOptions
  readonly #backoff: Backoff
  readonly #closing = new AbortController()
  readonly #done: Promise<void>
  #peer: Peer | undefined
  /** The other side knows who dials and wants no link: it is asked rarely. */
  #forbidden = false

  constructor(options: DialOptions) {
    super()
    this.#options = options
    this.#backoff = options.backoff ?? { minMs: 100, maxMs: 5_000 }
    this.#done = this.#keepUp()
  }

  /** The present link. */
  get peer(): Peer | undefined {
    return this.#peer
  }

  /** The present link or the next one. Rejects with the signal's reason, or LinkLost once the line is closed. */
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

  /** Stops dialling and ends the present link. */
  async close(): Promise<void> {
    this.#closing.abort(new LinkLost(false, 'the line is closed'))
    await Promise.all([this.#peer?.close(1000, 'the line is closed'), this.#done])
  }

  async #keepUp(): Promise<void> {
    // First listeners, then the first attempt.
    await Promise.resolve()
    for (let attempt = 0; !this.#closing.signal.aborted; attempt++) {
      const upForMs = await this.#hold().catch((err: unknown) => this.#stumble(err))
      // A door that opens and slams again earns no fresh start.
      if (upForMs > this.#backoff.maxMs) attempt = 0
      const ceilingMs = this.#forbidden ? forbiddenPauseMs : backoffCeilingMs(this.#backoff, attempt)
      await this.#rest(Math.random() * ceilingMs)
    }
  }

  /** A listener that fails ends no line: it is dialled on. */
  #stumble(err: unknown): number {
    this.#options.log?.error({ err }, 'a listener of a line failed')
    return 0
  }

  /** One link from its opening to its end; answers how long it was up. */
  async #hold(): Promise<number> {
    this.#forbidden = false
    try {
      const { since, gone } = await this.#open()
      await gone
      return performance.now() - since
    } catch (error) {
      const refused = asDialRefused(error)
      this.#forbidden = refused.status === 403
      if (!this.#closing.signal.aborted) this.emit('refused', refused)
      return 0
    }
  }

  #open(): Promise<{ since: number; gone: Promise<void> }> {
    const target = { ...this.#options, signal: this.#closing.signal }
    const maxPayload = this.#options.maxFrameBytes ?? defaultMaxFrameBytes
    const { prove, handshakeTimeoutMs: timeoutMs = defaultHandshakeTimeoutMs } = this.#options
    return openSocket(target, maxPayload, async (socket) => {
      if (prove) await shakeHands(socket, { timeoutMs }, prove)
      return this.#take(socket)
    })
  }

  #take(socket: WebSocket): { since: number; gone: Promise<void> } {
    const peer = new Peer(socket, this.#options)
    const gone = Promise.withResolvers<void>()
    peer.once('close', (reason) => {
      this.#peer = undefined
      gone.resolve()
      this.emit('lost', reason)
    })
    this.#peer = peer
    this.emit('peer', peer)
    return { since: performance.now(), gone: gone.promise }
  }

  async #rest(waitMs: number): Promise<void> {
    try {
      await sleep(waitMs, undefined, { signal: this.#closing.signal })
    } catch (error) {
      if (!this.#closing.signal.aborted) throw error
    }
  }
}

function asDialRefused(error: unknown): DialRefused {
  if (error instanceof DialRefused) return error
  return new DialRefused('the attempt could not be made', { cause: error })
}

// The body of a request as raw bytes, passed on as it comes, never more of it than a route takes and never waited for
// longer than a body may stand still. It is not destroyed where its way ends early: the caller must still be answered.

import type { IncomingMessage } from 'node:http'
import { Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Refusal, refusals } from '@dormouse/contract'

/** How long a caller who was answered may go on sending. */
const lingerMs = 10_000

export interface BodyBounds {
  maxBytes: number
  /** For how long not a byte of it may move. */
  stallMs: number
}

export class BoundedBody {
  readonly #raw: IncomingMessage
  readonly #bounds: BodyBounds
  #size = 0

  constructor(raw: IncomingMessage, bounds: BodyBounds) {
    this.#raw = raw
    this.#bounds = bounds
    if (Number(raw.headers['content-length'] ?? 0) > bounds.maxBytes) throw this.#tooLarge()
  }

  /** Passes all of it on and ends the sink; where it breaks off, stands still or is too large, the sink is destroyed. */
  async into(sink: Writable): Promise<void> {
    const raw = this.#raw
    const meter = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        stall.refresh()
        this.#count(chunk, done)
      },
    })
    const stall = setTimeout(() => meter.destroy(stalled()), this.#bounds.stallMs)
    const broken = () => {
      if (!raw.readableEnded) meter.destroy(endedEarly())
    }
    raw.once('error', broken).once('close', broken)
    raw.once('end', () => clearTimeout(stall)).pipe(meter)
    if (raw.destroyed) broken()
    try {
      await pipeline(meter, sink)
    } catch (error) {
      raw.unpipe(meter)
      letGo(raw, this.#bounds.stallMs)
      throw error
    } finally {
      clearTimeout(stall)
    }
  }

  /** All of it at once. `hold` hears of each piece before it is kept; what it throws ends the reading. */
  async bytes(hold: (bytes: number) => void): Promise<Buffer> {
    const chunks: Buffer[] = []
    await this.#flow((chunk) => {
      hold(chunk.length)
      chunks.push(chunk)
    })
    return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks)
  }

  /** Refuses what is too large or stands still also where nobody wants it: a body is looked at before anything else is. */
  async measure(): Promise<void> {
    await this.#flow(() => undefined)
  }

  /** Nobody takes it, and its sender is told so at once; where it did not say its size, only once that is known. */
  async discard(): Promise<void> {
    if (this.#raw.headers['content-length'] === undefined) await this.measure()
    else letGo(this.#raw, this.#bounds.stallMs)
  }

  /** Hands over each piece as it comes, without the streams that a sink with a pace of its own needs. */
  async #flow(take: (chunk: Buffer) => void): Promise<void> {
    const raw = this.#raw
    const over = Promise.withResolvers<void>()
    const fail = (error: unknown) => over.reject(error)
    const stall = setTimeout(() => fail(stalled()), this.#bounds.stallMs)
    const hear = (chunk: Buffer) => {
      stall.refresh()
      this.#count(chunk, (error) => (error ? fail(error) : attempt(() => take(chunk))))
    }
    const attempt = (act: () => void) => {
      try {
        act()
      } catch (error) {
        // Nothing that comes after it is looked at.
        raw.off('data', hear)
        fail(error)
      }
    }
    const ended = () => over.resolve()
    const broken = () => fail(endedEarly())
    raw.on('data', hear).once('end', ended).once('error', broken).once('close', broken)
    if (raw.readableEnded) ended()
    else if (raw.destroyed) broken()
    try {
      await over.promise
    } catch (error) {
      letGo(raw, this.#bounds.stallMs)
      throw error
    } finally {
      clearTimeout(stall)
      raw.off('data', hear).off('end', ended).off('error', broken).off('close', broken)
    }
  }

  #count(chunk: Buffer, done: (error: Error | null, chunk?: Buffer) => void): void {
    this.#size += chunk.length
    if (this.#size > this.#bounds.maxBytes) done(this.#tooLarge())
    else done(null, chunk)
  }

  #tooLarge(): Refusal {
    return new Refusal('payload_too_large', refusals.payload_too_large.detail(this.#bounds))
  }
}

const stalled = () =>
  new Refusal('invalid_request', 'timed out waiting for the request body; send it without pauses', { field: 'body' })
const endedEarly = () =>
  new Refusal('invalid_request', 'the request body ended early; send all of it', { field: 'body' })

/** What still comes is dropped, for a while: who has been answered may be sending yet, and reads only after that. */
export function letGo(raw: IncomingMessage, withinMs: number): void {
  if (raw.complete || raw.destroyed) return
  const timer = setTimeout(() => raw.destroy(), Math.min(lingerMs, withinMs)).unref()
  raw.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer))
  raw.resume()
}

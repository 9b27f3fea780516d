// A request body as raw bytes, bounded in size and in the time it may make no progress. The request is not destroyed if the
// sink ends early: the client must still get its response.
import type { IncomingMessage } from 'node:http'
import { Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Refusal, refusals } from '@dormouse/contract'
import { BoundedBuffer } from '@dormouse/process'
import { drain } from './early-responses.ts'

export interface BodyBounds {
  maxBytes: number
  /** Abort a body that makes no progress for this long. */
  stallMs: number
  /** What to do with a larger body. */
  instead?: string
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

  /** Pipes the body into the sink and ends it. A body that is interrupted, stalled or too large destroys the sink. */
  async into(sink: Writable): Promise<void> {
    const raw = this.#raw
    const meter = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        stall.refresh()
        this.#count(chunk, done)
      },
    })
    // The pipeline reports it, but does not listen if its sink is closed already.
    meter.on('error', () => undefined)
    const stall = setTimeout(() => meter.destroy(stalled()), this.#bounds.stallMs)
    const failed = () => {
      if (!raw.readableEnded) meter.destroy(endedEarly())
    }
    raw.once('error', failed).once('close', failed)
    raw.once('end', () => clearTimeout(stall)).pipe(meter)
    if (raw.destroyed) failed()
    try {
      await pipeline(meter, sink)
    } catch (error) {
      raw.unpipe(meter)
      drain(raw, this.#bounds.stallMs)
      throw error
    } finally {
      clearTimeout(stall)
    }
  }

  /** The whole body. `hold` is called before each piece is kept; what it throws ends the reading. */
  async bytes(hold: (bytes: number) => void): Promise<Buffer> {
    const kept = new BoundedBuffer(this.#bounds.maxBytes)
    await this.#flow((chunk) => {
      hold(chunk.length)
      kept.add(chunk)
    })
    return kept.take()
  }

  /** Applies the bounds to a body that no handler reads: a bad body is refused before anything else is checked. */
  async measure(): Promise<void> {
    await this.#flow(() => undefined)
  }

  /** Drops the body of a request that was refused. Without Content-Length its size is checked first. */
  async discard(): Promise<void> {
    if (this.#raw.headers['content-length'] === undefined) await this.measure()
    else drain(this.#raw, this.#bounds.stallMs)
  }

  /** Calls back with each piece. Cheaper than streams, for readers without back-pressure. */
  async #flow(take: (chunk: Buffer) => void): Promise<void> {
    const raw = this.#raw
    const finished = Promise.withResolvers<void>()
    const fail = (error: unknown) => finished.reject(error)
    const stall = setTimeout(() => fail(stalled()), this.#bounds.stallMs)
    const receive = (chunk: Buffer) => {
      stall.refresh()
      this.#count(chunk, (error) => (error ? fail(error) : attempt(() => take(chunk))))
    }
    const attempt = (act: () => void) => {
      try {
        act()
      } catch (error) {
        // Later pieces are ignored.
        raw.off('data', receive)
        fail(error)
      }
    }
    const ended = () => finished.resolve()
    // `close` follows `end` before the waiter below runs.
    const failed = () => {
      if (!raw.readableEnded) fail(endedEarly())
    }
    raw.on('data', receive).once('end', ended).once('error', failed).once('close', failed)
    if (raw.readableEnded) ended()
    else if (raw.destroyed) failed()
    try {
      await finished.promise
    } catch (error) {
      drain(raw, this.#bounds.stallMs)
      throw error
    } finally {
      clearTimeout(stall)
      raw.off('data', receive).off('end', ended).off('error', failed).off('close', failed)
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

// The body of a request as raw bytes, passed on as it comes and never more of it than a route takes. It is not destroyed
// where its way ends early: the caller must still be answered.

import type { IncomingMessage } from 'node:http'
import { Transform, type Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { Refusal } from '@dormouse/contract'

/** How long a caller who was answered may go on sending. */
const lingerMs = 10_000

export class BoundedBody {
  readonly #raw: IncomingMessage
  readonly #maxBytes: number
  #size = 0

  constructor(raw: IncomingMessage, maxBytes: number) {
    this.#raw = raw
    this.#maxBytes = maxBytes
    if (Number(raw.headers['content-length'] ?? 0) > maxBytes) throw this.#tooLarge()
  }

  /** Passes all of it on and ends the sink; where it breaks off or is too large, the sink is destroyed. */
  async into(sink: Writable): Promise<void> {
    const raw = this.#raw
    const meter = new Transform({ transform: (chunk: Buffer, _encoding, done) => this.#count(chunk, done) })
    const broken = () => {
      if (!raw.readableEnded) meter.destroy(new Refusal('invalid_request', 'the body broke off', { field: 'body' }))
    }
    raw.once('error', broken).once('close', broken)
    raw.pipe(meter)
    try {
      await pipeline(meter, sink)
    } catch (error) {
      raw.unpipe(meter)
      letGo(raw)
      throw error
    }
  }

  /** Refuses what is too large also where nobody wants it: a body's size is looked at before anything else is. */
  async measure(): Promise<void> {
    for await (const chunk of this.#raw.iterator({ destroyOnReturn: false })) {
      this.#size += (chunk as Buffer).length
      if (this.#size > this.#maxBytes) {
        letGo(this.#raw)
        throw this.#tooLarge()
      }
    }
  }

  #count(chunk: Buffer, done: (error: Error | null, chunk?: Buffer) => void): void {
    this.#size += chunk.length
    if (this.#size > this.#maxBytes) done(this.#tooLarge())
    else done(null, chunk)
  }

  #tooLarge(): Refusal {
    return new Refusal('payload_too_large', `the body is larger than the ${this.#maxBytes} bytes that this route takes`)
  }
}

/** What still comes is dropped, for a while: who has been answered may be sending yet, and reads only after that. */
export function letGo(raw: IncomingMessage): void {
  if (raw.complete || raw.destroyed) return
  const timer = setTimeout(() => raw.destroy(), lingerMs).unref()
  raw.once('close', () => clearTimeout(timer)).once('end', () => clearTimeout(timer))
  raw.resume()
}

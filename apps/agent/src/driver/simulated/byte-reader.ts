// Exact numbers of bytes from a stream. Knows nothing of what they say.
import { once } from 'node:events'
import type { Readable } from 'node:stream'

export class ByteReader {
  readonly #source: Readable

  constructor(source: Readable) {
    this.#source = source
  }

  /** The next `length` bytes; throws where the stream ends before. */
  async take(length: number): Promise<Buffer> {
    if (length === 0) return Buffer.alloc(0)
    for (;;) {
      const bytes = this.#source.read(length) as Buffer | null
      if (bytes?.length === length) return bytes
      if (this.#source.readableEnded || this.#source.destroyed || bytes) throw new Error('the stream ended')
      await Promise.race([once(this.#source, 'readable'), once(this.#source, 'end'), once(this.#source, 'close')])
    }
  }
}

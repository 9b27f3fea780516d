// Reads exact numbers of bytes from a stream. Knows nothing of their meaning.
import type { Readable } from 'node:stream'

export class ByteReader {
  readonly #source: Readable
  /** Wakes the reader that waits for more bytes, or for the end. */
  #awake: (() => void) | undefined

  constructor(source: Readable) {
    this.#source = source
    for (const event of ['readable', 'end', 'close'] as const) source.on(event, () => this.#awake?.())
  }

  /** The next `length` bytes; throws if the stream ends earlier. */
  async take(length: number): Promise<Buffer> {
    if (length === 0) return Buffer.alloc(0)
    for (;;) {
      const bytes = this.#source.read(length) as Buffer | null
      if (bytes?.length === length) return bytes
      if (this.#source.readableEnded || this.#source.destroyed || bytes) throw new Error('the stream ended')
      await new Promise<void>((resolve) => {
        this.#awake = resolve
      })
    }
  }
}

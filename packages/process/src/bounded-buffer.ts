// The first part of a stream, in one buffer: a sender that sends single bytes must not create a million objects.

/** Keeps at most `maxBytes` of what is added and drops the rest. */
export class BoundedBuffer {
  readonly #maxBytes: number
  #bytes = Buffer.alloc(0)
  #size = 0
  #taken = false

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** How many bytes it has kept. */
  get size(): number {
    return this.#size
  }

  add(bytes: Buffer): void {
    const fits = bytes.subarray(0, this.#maxBytes - this.#size)
    if (this.#taken || fits.length === 0) return
    this.#grow(this.#size + fits.length)
    fits.copy(this.#bytes, this.#size)
    this.#size += fits.length
  }

  /** What was kept. Everything that is added later is dropped. */
  take(): Buffer {
    const kept = this.#bytes.subarray(0, this.#size)
    this.#bytes = Buffer.alloc(0)
    this.#size = 0
    this.#taken = true
    return kept
  }

  #grow(size: number): void {
    if (this.#bytes.length >= size) return
    const larger = Buffer.alloc(Math.max(size, Math.min(this.#maxBytes, 2 * this.#bytes.length)))
    this.#bytes.copy(larger)
    this.#bytes = larger
  }
}

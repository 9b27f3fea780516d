// What is kept of a command's output, in one piece: a server that says each byte by itself must not make a million objects
// of them. Knows nothing of what it keeps.
import { execOutputMaxBytes } from '@dormouse/contract'

/** The first part of a stream, one byte more than is told, so that a longer one shows; the rest is dropped. */
export class Kept {
  #bytes = Buffer.alloc(0)
  #size = 0
  #taken = false

  add(bytes: Buffer): void {
    const fits = bytes.subarray(0, execOutputMaxBytes + 1 - this.#size)
    if (this.#taken || fits.length === 0) return
    this.#makeRoom(this.#size + fits.length)
    fits.copy(this.#bytes, this.#size)
    this.#size += fits.length
  }

  /** What was kept; from here on everything is dropped. */
  take(): Buffer {
    const kept = this.#bytes.subarray(0, this.#size)
    this.#bytes = Buffer.alloc(0)
    this.#size = 0
    this.#taken = true
    return kept
  }

  #makeRoom(size: number): void {
    if (this.#bytes.length >= size) return
    const larger = Buffer.alloc(Math.max(size, 2 * this.#bytes.length))
    this.#bytes.copy(larger)
    this.#bytes = larger
  }
}

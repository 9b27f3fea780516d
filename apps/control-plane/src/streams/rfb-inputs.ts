// Notices input in what a client sends to a screen that it controls. Changes nothing of it. Pure.
// Requests for pictures, encodings and sizes are no input; keys, pointer and clipboard are.
import { clientMessages, extendedMouseButtons } from '@dormouse/contract'
import { messageAt } from './rfb-filter.ts'
import { RfbBreach } from './rfb-terms.ts'

const { setEncodings, pictureRequest, key, pointer, cutText, power, qemu } = clientMessages
const inputs: ReadonlySet<number> = new Set([key, pointer, cutText, power])
/** A longer list of encodings is not read. */
const mostEncodings = 1_024

export class RfbInputs {
  readonly #onInput: () => void
  /** Received bytes from the start of an incomplete message. */
  #kept: Buffer = Buffer.alloc(0)
  /** Remaining bytes of a message that is known. */
  #skipping = 0
  #hasExtendedPointer = false
  /** An unknown message: so it is unknown where the next one begins, too. */
  #isLost = false

  constructor(onInput: () => void) {
    this.#onInput = onInput
  }

  /** Everything after the handshake, wherever it is split. */
  hear(chunk: Buffer): void {
    if (this.#isLost) {
      if (!looksLikeRequests(chunk)) this.#onInput()
      return
    }
    try {
      this.#parse(chunk)
    } catch (error) {
      if (!(error instanceof RfbBreach)) throw error
      this.#isLost = true
      this.#onInput()
    }
  }

  #parse(chunk: Buffer): void {
    const bytes = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    let at = Math.min(this.#skipping, bytes.length)
    this.#skipping -= at
    let isInput = false
    while (at < bytes.length) {
      const length = this.#lengthAt(bytes, at)
      if (length === undefined) break
      isInput ||= inputs.has(bytes[at]!) || (bytes[at] === qemu && bytes[at + 1] === 0)
      const here = Math.min(length, bytes.length - at)
      this.#skipping = length - here
      at += here
    }
    // A copy: the rest may be one byte of a large chunk.
    this.#kept = Buffer.from(bytes.subarray(at))
    if (isInput) this.#onInput()
  }

  /** Undefined if more bytes are needed. */
  #lengthAt(bytes: Buffer, at: number): number | undefined {
    const length = messageAt(bytes, at)
    if (length === undefined) return undefined
    if (bytes[at] === setEncodings) return this.#encodings(bytes, at, length)
    if (bytes[at] !== pointer || !this.#hasExtendedPointer) return length
    const buttons = bytes[at + 1]
    if (buttons === undefined) return undefined
    return (buttons & 0x80) === 0 ? length : length + 1
  }

  #encodings(bytes: Buffer, at: number, length: number): number | undefined {
    const count = (length - 4) / 4
    if (count > mostEncodings) throw new RfbBreach('a message that is too long')
    if (bytes.length - at < length) return undefined
    const all = Array.from({ length: count }, (_, i) => bytes.readInt32BE(at + 4 + 4 * i))
    this.#hasExtendedPointer = all.includes(extendedMouseButtons)
    return length
  }
}

/** A client that only watches sends whole requests for pictures. */
const looksLikeRequests = (chunk: Buffer): boolean => chunk.length % 10 === 0 && chunk[0] === pictureRequest

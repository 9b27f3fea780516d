// Input on its way to an exec: what was not accepted is kept, so that it is sent again over the next connection.
import type { attachInputMaxBytes } from '@dormouse/contract'
import { deferred } from './deferred.ts'

const inFlightMaxBytes: typeof attachInputMaxBytes = 262_144
const pieceMaxBytes = 64 * 1024

interface Writer {
  end: number
  resolve(): void
  reject(error: unknown): void
}

export class TerminalInput {
  #pieces: Uint8Array<ArrayBuffer>[] = []
  #bytes = 0
  /** The offset of the first byte that is kept; undefined before the first connection. */
  #start: number | undefined
  #sent = 0
  #writers: Writer[] = []
  #closed: Error | undefined
  /** Called when there is something to send. */
  onMore: () => void = () => undefined

  /** Resolves when the guest has accepted it. */
  add(bytes: Uint8Array<ArrayBuffer>): Promise<void> {
    if (this.#closed) return Promise.reject(this.#closed)
    if (bytes.length === 0) return Promise.resolve()
    this.#pieces.push(bytes)
    this.#bytes += bytes.length
    const { promise, resolve, reject } = deferred<void>()
    this.#writers.push({ end: (this.#start ?? 0) + this.#bytes, resolve, reject })
    this.onMore()
    return promise
  }

  /** A new connection goes on from there. */
  begin(end: number): void {
    if (this.#start === undefined) {
      this.#start = end
      for (const writer of this.#writers) writer.end += end
    }
    this.#sent = Math.max(end, this.#start)
    this.accept(end)
  }

  accept(end: number): void {
    const accepted = Math.max(0, Math.min(this.#bytes, end - this.#start!))
    let left = accepted
    while (left > 0) {
      const first = this.#pieces[0]!
      if (first.length > left) this.#pieces[0] = first.subarray(left)
      else this.#pieces.shift()
      left -= Math.min(left, first.length)
    }
    this.#bytes -= accepted
    this.#start! += accepted
    // Another client has written, too: what comes next goes behind that.
    if (this.#bytes === 0) this.#start = Math.max(this.#start!, end)
    this.#sent = Math.max(this.#sent, this.#start!)
    while (this.#writers[0] && this.#writers[0].end <= this.#start!) this.#writers.shift()!.resolve()
    this.onMore()
  }

  /** The next bytes, and their offset, that may be sent now. They count as sent. */
  take(): { offset: number; bytes: Uint8Array<ArrayBuffer> } | undefined {
    if (this.#start === undefined) return undefined
    const from = this.#sent - this.#start
    const most = Math.min(this.#bytes - from, inFlightMaxBytes - from, pieceMaxBytes)
    if (most <= 0) return undefined
    const bytes = this.#copy(from, most)
    const offset = this.#sent
    this.#sent += bytes.length
    return { offset, bytes }
  }

  /** No more is accepted. What waits is not sent. */
  close(error: Error): void {
    this.#closed ??= error
    this.#pieces = []
    this.#bytes = 0
    for (const writer of this.#writers.splice(0)) writer.reject(this.#closed)
  }

  #copy(from: number, length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length)
    let [at, filled] = [0, 0]
    for (const piece of this.#pieces) {
      const part = piece.subarray(Math.max(0, from - at), from - at + length)
      if (from + length > at && from < at + piece.length) {
        bytes.set(part.subarray(0, length - filled), filled)
        filled += Math.min(part.length, length - filled)
      }
      at += piece.length
      if (filled === length) break
    }
    return bytes
  }
}

// One stream of an exec over its socket. Reads from the guest only what may be sent, so a client that reads slowly costs no
// memory here, and never holds the command.
import { type ExecStateJson, type ExecStream, execReadMaxBytes, Refusal } from '@dormouse/contract'
import type { Asking } from '../guest/calls.ts'
import type { Execs } from '../guest/execs.ts'

interface OutputOptions {
  execs: Pick<Execs, 'read'>
  asking: Asking
  execId: string
  stream: ExecStream
  offset: number
  /** Bytes that may be sent beyond what the client has confirmed; undefined for no such limit. */
  window: number | undefined
  /** Counts bytes before they are read; throws above a limit. */
  hold(bytes: number): Disposable
  skipped(offset: number): void
  /** Resolves when the bytes were handed to the network. */
  send(bytes: Buffer): Promise<void>
}

const waitMs = 10_000
/** Read without being counted: the number of connections bounds it. A client above its limit goes on in such pieces. */
const smallBytes = 16 * 1024

export class Output {
  readonly #options: OutputOptions
  #offset: number
  #confirmed: number
  #resume: () => void = () => undefined

  constructor(options: OutputOptions) {
    this.#options = options
    this.#offset = options.offset
    this.#confirmed = options.offset
  }

  /** The client has read everything before the offset. */
  confirm(offset: number): void {
    this.#confirmed = Math.max(this.#confirmed, Math.min(offset, this.#offset))
    this.#resume()
  }

  /** Sends until the end of the stream; returns the exec as it is then. */
  async run(): Promise<ExecStateJson> {
    const { execs, asking, execId, stream, skipped, send } = this.#options
    let isMore = false
    for (;;) {
      const capacity = await this.#capacity()
      using piece = this.#pieceOf(Math.min(capacity, isMore ? execReadMaxBytes : smallBytes))
      const part = { stream, offset: this.#offset, waitMs, maxBytes: piece.bytes }
      const output = await execs.read(asking, execId, part)
      if (output.offset > this.#offset) skipped(output.offset)
      this.#offset = output.offset + output.bytes.length
      if (output.bytes.length > 0) await send(output.bytes)
      if (output.isEnd) return output.exec
      isMore = output.bytes.length === piece.bytes
    }
  }

  /** How much may be sent now, once that is at least half of the window. */
  async #capacity(): Promise<number> {
    const { window, asking } = this.#options
    if (window === undefined) return execReadMaxBytes
    for (;;) {
      asking.signal?.throwIfAborted()
      const left = this.#confirmed + window - this.#offset
      if (left >= window / 2) return left
      const { promise, resolve } = Promise.withResolvers<void>()
      this.#resume = resolve
      asking.signal?.addEventListener('abort', resolve as () => void, { once: true })
      await promise
      asking.signal?.removeEventListener('abort', resolve as () => void)
    }
  }

  #pieceOf(bytes: number): { bytes: number } & Disposable {
    if (bytes <= smallBytes) return { bytes, [Symbol.dispose]: () => undefined }
    try {
      const held = this.#options.hold(bytes)
      return { bytes, [Symbol.dispose]: () => held[Symbol.dispose]() }
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      return { bytes: smallBytes, [Symbol.dispose]: () => undefined }
    }
  }
}

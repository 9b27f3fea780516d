// The input that a client sends over an exec's socket: given to the guest in order, by offsets, and confirmed. What was
// accepted is not sent twice; what was not is the client's to send again.
import { attachInputMaxBytes, Refusal } from '@dormouse/contract'
import type { Asking } from '../guest/calls.ts'
import type { Execs } from '../guest/execs.ts'
import { AttachBreach } from './messages.ts'

interface InputOptions {
  execs: Pick<Execs, 'write'>
  /** Without a signal: what was received is still given to the guest after the client has left. */
  asking: Asking
  execId: string
  offset: number
  /** Counts bytes while they wait; throws above a limit. */
  hold(bytes: number): Disposable
  accepted(offset: number, closed: boolean): void
}

/** Less is not counted: the number of connections bounds it. */
const countedBytes = 16 * 1024
/** A piece costs a hundred bytes beside its own, and a client may send bytes one by one. */
const piecesMax = 256

export class Input {
  /** Rejects with what has failed; never resolves. */
  readonly failed: Promise<never>
  readonly #options: InputOptions
  readonly #fail: (error: unknown) => void
  #waiting: Buffer[] = []
  #bytes = 0
  #held: Disposable | undefined
  #offset: number
  #ends = false
  #isClosed = false
  #isWriting = false
  #clientIsGone = false

  constructor(options: InputOptions) {
    this.#options = options
    this.#offset = options.offset
    const { promise, reject } = Promise.withResolvers<never>()
    this.failed = promise
    this.failed.catch(() => undefined)
    this.#fail = reject
  }

  add(bytes: Buffer): void {
    if (this.#isClosed || bytes.length === 0) return
    if (this.#ends) throw new AttachBreach('input after `eof`')
    this.#bytes += bytes.length
    if (this.#bytes > attachInputMaxBytes)
      throw new AttachBreach(`more than ${attachInputMaxBytes} bytes of input beyond what was accepted`)
    if (this.#bytes > countedBytes) this.#held ??= this.#options.hold(attachInputMaxBytes)
    this.#waiting.push(bytes)
    if (this.#waiting.length > piecesMax) this.#waiting = [Buffer.concat(this.#waiting)]
    void this.#write()
  }

  end(): void {
    this.#ends = true
    void this.#write()
  }

  /** What waits is still written while the command reads; then it is dropped. */
  leave(): void {
    this.#clientIsGone = true
  }

  async #write(): Promise<void> {
    if (this.#isWriting) return
    this.#isWriting = true
    try {
      while (this.#bytes > 0 || (this.#ends && !this.#isClosed)) await this.#writeOnce()
    } catch (error) {
      if (error instanceof Refusal && error.code === 'exec_input_closed') this.#close()
      else this.#fail(error)
    } finally {
      this.#isWriting = false
      if (this.#bytes === 0) this.#release()
    }
  }

  async #writeOnce(): Promise<void> {
    const { execs, asking, execId, accepted } = this.#options
    const piece = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting)
    this.#waiting = [piece]
    const ends = this.#ends
    const from = this.#offset
    const end = await execs.write(asking, execId, from, piece, ends)
    this.#offset = Math.min(end, from + piece.length)
    this.#drop(this.#offset - from)
    if (ends && this.#bytes === 0) return this.#close()
    accepted(this.#offset, false)
    if (this.#clientIsGone && this.#offset === from) this.#close()
  }

  #drop(bytes: number): void {
    const whole = this.#waiting.length === 1 ? this.#waiting[0]! : Buffer.concat(this.#waiting)
    this.#bytes -= bytes
    this.#waiting = this.#bytes > 0 ? [whole.subarray(bytes)] : []
  }

  #close(): void {
    this.#isClosed = true
    this.#waiting = []
    this.#bytes = 0
    this.#release()
    this.#options.accepted(this.#offset, true)
  }

  #release(): void {
    this.#held?.[Symbol.dispose]()
    this.#held = undefined
  }
}

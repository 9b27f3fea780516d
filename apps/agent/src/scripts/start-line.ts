// The line with which a script of ours starts its output over SSH. The guest's login shell may print something first (its
// owner's `.bashrc` may greet): output printed before our script starts is discarded.
import { greetingMaxBytes } from './limits.ts'

const pidMaxDigits = 10

const startOf = (nonce: string): string => `dormouse-${nonce} began `

/** The script, preceded by a start line with its process id on each of its two streams. */
export const withStartLine = (script: string, nonce: string): string =>
  `echo "${startOf(nonce)}$$"; echo "${startOf(nonce)}$$" >&2\n${script}`

/** Finds the start line in one stream. */
export class StartLine {
  readonly #pattern: RegExp
  readonly #maxBytes: number
  #tail = Buffer.alloc(0)
  #greetingBytes = 0
  #pid: number | undefined

  readonly nonce: string

  constructor(nonce: string) {
    this.nonce = nonce
    const start = startOf(nonce)
    this.#pattern = new RegExp(`${start}(\\d{1,${pidMaxDigits}})\\n`)
    this.#maxBytes = start.length + pidMaxDigits + 1
  }

  /** The script's process, once its start line has come. */
  get pid(): number | undefined {
    return this.#pid
  }

  /** Whether more came before the start line than is accepted. */
  get isOverLimit(): boolean {
    return this.#pid === undefined && this.#greetingBytes > greetingMaxBytes
  }

  /** The part of these bytes that comes after the start line. */
  after(bytes: Buffer): Buffer {
    if (this.#pid !== undefined) return bytes
    const received = Buffer.concat([this.#tail, bytes])
    const line = this.#pattern.exec(received.toString('latin1'))
    this.#greetingBytes += bytes.length
    this.#tail = line ? Buffer.alloc(0) : Buffer.from(received.subarray(-this.#maxBytes))
    if (!line) return Buffer.alloc(0)
    this.#pid = Number(line[1])
    return received.subarray(line.index + line[0].length)
  }
}

/** Refused if the login shell prints more than its limit and our script does not start. */
export const greetingTooLong = 'the guest’s login shell printed too much before running the command'

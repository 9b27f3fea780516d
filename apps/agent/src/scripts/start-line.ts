// Where a script of ours begins to speak on a channel of a guest's SSH connection. What the guest's shell says before that
// (its owner's `.bashrc` may greet) is none of the script's words. A guest's word is untrusted: all is bounded.
import { announced } from './exec.ts'

const greetingMaxBytes = 16 * 1024
const pidMaxDigits = 10

export class Head {
  readonly #announced: RegExp
  readonly #lineMaxBytes: number
  #held = Buffer.alloc(0)
  #greetingBytes = 0
  #pid: number | undefined

  constructor(nonce: string) {
    const word = announced(nonce)
    this.#announced = new RegExp(`${word}(\\d{1,${pidMaxDigits}})\\n`)
    this.#lineMaxBytes = word.length + pidMaxDigits + 1
  }

  /** The script's process, once it has spoken. */
  get pid(): number | undefined {
    return this.#pid
  }

  /** Whether there is no end to what is said before. */
  get endless(): boolean {
    return this.#pid === undefined && this.#greetingBytes > greetingMaxBytes
  }

  /** What of these bytes is the script's own. */
  own(bytes: Buffer): Buffer {
    if (this.#pid !== undefined) return bytes
    const heard = Buffer.concat([this.#held, bytes])
    const line = this.#announced.exec(heard.toString('latin1'))
    this.#greetingBytes += bytes.length
    this.#held = line ? Buffer.alloc(0) : Buffer.from(heard.subarray(-this.#lineMaxBytes))
    if (!line) return Buffer.alloc(0)
    this.#pid = Number(line[1])
    return heard.subarray(line.index + line[0].length)
  }
}

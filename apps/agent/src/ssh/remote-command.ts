// One channel of a guest's SSH connection, and what the command on it says until it has ended; bounded.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { Refusal } from '@dormouse/contract'
import type { ClientChannel } from 'ssh2'
import { Kept } from '../mechanics/bounded-buffer.ts'
import { before } from '../mechanics/deadlines.ts'
import { announce } from '../scripts/exec.ts'
import type { Ended } from '../scripts/exec-result.ts'
import { Head } from '../scripts/start-line.ts'
import { hangUp } from './channels.ts'
import type { SshLine } from './connection.ts'

/** Collects what a command says until it has ended. */
export class Run {
  readonly #channel: ClientChannel
  readonly #out = new Kept()
  readonly #err = new Kept()
  readonly #exited = Promise.withResolvers<true>()
  readonly #closed = Promise.withResolvers<true>()
  readonly #named = Promise.withResolvers<true>()
  #exit: Pick<Ended, 'exitCode' | 'signal'> | undefined
  #heardAt = 0
  #open = true
  #pid: number | undefined

  private constructor(channel: ClientChannel, nonce: string) {
    this.#channel = channel
    this.#exited.promise.catch(() => undefined)
    const [outHead, errHead] = [new Head(nonce), new Head(nonce)]
    channel.on('data', (bytes: Buffer) => this.#hear(this.#out, outHead, bytes))
    channel.stderr.on('data', (bytes: Buffer) => this.#hear(this.#err, errHead, bytes))
    channel.on('exit', (code: number | null, name?: string) => {
      this.#exit = { exitCode: code ?? undefined, signal: code === null ? signalOf(name) : undefined }
      this.#heardAt = performance.now()
      this.#open = false
      this.#exited.resolve(true)
    })
    channel.on('close', () => {
      this.#open = false
      this.#exited.reject(new Refusal('guest_unavailable', 'the guest went away while the command ran'))
      this.#closed.resolve(true)
      this.#named.resolve(true)
    })
  }

  /** Begins a script of ours. One that begins when nobody waits for it any more is handed to `late`. */
  static begin(line: SshLine, script: string, late = (run: Run) => run.close()): Promise<Run> {
    const nonce = randomBytes(12).toString('hex')
    const asRun = (channel: ClientChannel) => new Run(channel, nonce)
    return line.open(announce(script, nonce), asRun, (channel) => late(asRun(channel)))
  }

  /** Its process, where it has said so. */
  get pid(): number | undefined {
    return this.#pid
  }

  /** Whether it may still be fed. */
  get open(): boolean {
    return this.#open
  }

  /** All that it shall read. */
  feed(input: string): this {
    this.#open = false
    this.#channel.end(input)
    return this
  }

  /** Waits for the command's own end; false at the deadline. */
  over(deadline: number): Promise<boolean> {
    return within(this.#exited.promise, deadline - performance.now())
  }

  /** Its process, once its first line has come. */
  async named(mostMs: number): Promise<number | undefined> {
    await within(this.#named.promise, mostMs)
    return this.pid
  }

  /** Waits for the end of its output: for so long at most, and only until nothing has come for `quiet`. */
  async drained(mostMs: number, quiet: number): Promise<boolean> {
    const ends = performance.now() + mostMs
    for (;;) {
      const leftMs = Math.min(ends, this.#heardAt + quiet) - performance.now()
      if (await within(this.#closed.promise, leftMs)) return true
      if (performance.now() >= Math.min(ends, this.#heardAt + quiet)) return false
    }
  }

  /** How it ended and what it said; what still comes is dropped. */
  take(): Ended {
    const [stdout, stderr] = [this.#out.take(), this.#err.take()]
    return { exitCode: this.#exit?.exitCode, signal: this.#exit?.signal, stdout, stderr }
  }

  close(): void {
    hangUp(this.#channel)
  }

  #hear(kept: Kept, head: Head, bytes: Buffer): void {
    this.#heardAt = performance.now()
    kept.add(head.own(bytes))
    if (head.pid !== undefined) this.#name(head.pid)
    else if (head.endless) this.#refuse('the guest’s shell never ends to greet')
  }

  #name(pid: number): void {
    this.#pid = pid
    this.#named.resolve(true)
  }

  #refuse(why: string): void {
    this.#open = false
    this.#exited.reject(new Refusal('command_not_run', why))
    this.close()
  }
}

/** False where it is not there in time. */
const within = async (promise: Promise<true>, ms: number): Promise<boolean> =>
  (await before(performance.now() + ms, promise)) ?? false

const signals: Record<string, number> = constants.signals

/** OpenSSH has no name for some of them (SIGBUS, SIGSYS, SIGXCPU, …): which one it was is then not known. */
const signalOf = (name = ''): number | undefined => signals[name.startsWith('SIG') ? name : `SIG${name}`]

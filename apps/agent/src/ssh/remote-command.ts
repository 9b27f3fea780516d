// One script on a channel of a guest's SSH connection, and what it prints until it has ended; bounded.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { execOutputMaxBytes, Refusal } from '@dormouse/contract'
import { BoundedBuffer } from '@dormouse/process'
import type { GuestChannel, GuestConnection } from '../driver/guest-connection.ts'
import type { ProgramEnd } from '../driver/guest-transport.ts'
import { CommandLost } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import { greetingTooLong, StartLine, withStartLine } from '../scripts/start-line.ts'
import { closeChannel } from './channels.ts'

/** One byte more than the limit, so that a longer output is detected. */
const keptBytes = execOutputMaxBytes + 1

export class RemoteCommand {
  readonly #channel: GuestChannel
  readonly #stdout = new BoundedBuffer(keptBytes)
  readonly #stderr = new BoundedBuffer(keptBytes)
  readonly #exited = Promise.withResolvers<true>()
  readonly #closed = Promise.withResolvers<true>()
  readonly #started = Promise.withResolvers<true>()
  #exit: Pick<ProgramEnd, 'exitCode' | 'signal'> | undefined
  #heardAt = 0
  #acceptsInput = true
  #pid: number | undefined

  private constructor(channel: GuestChannel, nonce: string) {
    this.#channel = channel
    this.#exited.promise.catch(() => undefined)
    const [outStart, errStart] = [new StartLine(nonce), new StartLine(nonce)]
    channel.on('data', (bytes: Buffer) => this.#onData(this.#stdout, outStart, bytes))
    channel.stderr.on('data', (bytes: Buffer) => this.#onData(this.#stderr, errStart, bytes))
    channel.on('exit', (code: number | null, name?: string) => {
      this.#exit = { exitCode: code ?? undefined, signal: code === null ? signalNumber(name) : undefined }
      this.#heardAt = performance.now()
      this.#acceptsInput = false
      this.#exited.resolve(true)
    })
    channel.on('close', () => {
      this.#acceptsInput = false
      this.#exited.reject(new CommandLost('the connection to the guest was lost while the command ran'))
      this.#closed.resolve(true)
      this.#started.resolve(true)
    })
  }

  /** Starts a script of ours. A command that starts after the timeout for opening a channel goes to `late`. */
  static start(connection: GuestConnection, script: string, late = (command: RemoteCommand) => command.close()) {
    const nonce = randomBytes(12).toString('hex')
    const asCommand = (channel: GuestChannel) => new RemoteCommand(channel, nonce)
    return connection.openChannel(withStartLine(script, nonce), asCommand, (channel) => late(asCommand(channel)))
  }

  /** The script's process, once its start line has come. */
  get pid(): number | undefined {
    return this.#pid
  }

  get acceptsInput(): boolean {
    return this.#acceptsInput
  }

  /** Sends the whole input, and ends it. */
  sendInput(input: string): this {
    this.#acceptsInput = false
    this.#channel.end(input)
    return this
  }

  /** Waits for the command's own end; false at the deadline. Throws if the connection is lost. */
  exitedBefore(deadline: number): Promise<boolean> {
    return within(this.#exited.promise, deadline - performance.now())
  }

  /** The script's process; undefined if its start line does not come in time. */
  async pidWithin(timeoutMs: number): Promise<number | undefined> {
    await within(this.#started.promise, timeoutMs)
    return this.pid
  }

  /** Waits for the end of the output, for a limited time; false as soon as nothing has come for `silenceMs`. */
  async outputEnded(timeoutMs: number, silenceMs: number): Promise<boolean> {
    const deadline = performance.now() + timeoutMs
    for (;;) {
      const leftMs = Math.min(deadline, this.#heardAt + silenceMs) - performance.now()
      if (await within(this.#closed.promise, leftMs)) return true
      if (performance.now() >= Math.min(deadline, this.#heardAt + silenceMs)) return false
    }
  }

  /** How the command ended and what it printed. Output that comes later is dropped. */
  takeEnd(): ProgramEnd {
    const [stdout, stderr] = [this.#stdout.take(), this.#stderr.take()]
    return { exitCode: this.#exit?.exitCode, signal: this.#exit?.signal, stdout, stderr }
  }

  close(): void {
    closeChannel(this.#channel)
  }

  #onData(buffer: BoundedBuffer, start: StartLine, bytes: Buffer): void {
    this.#heardAt = performance.now()
    buffer.add(start.after(bytes))
    if (start.pid !== undefined) this.#hasStarted(start.pid)
    else if (start.isOverLimit) this.#fail(greetingTooLong)
  }

  #hasStarted(pid: number): void {
    this.#pid = pid
    this.#started.resolve(true)
  }

  #fail(why: string): void {
    this.#acceptsInput = false
    this.#exited.reject(new Refusal('command_not_run', why))
    this.close()
  }
}

const within = async (promise: Promise<true>, timeoutMs: number): Promise<boolean> =>
  (await before(performance.now() + timeoutMs, promise)) ?? false

const signals: Record<string, number> = constants.signals

/** Undefined for a signal that OpenSSH does not name (SIGBUS, SIGSYS, SIGXCPU, …). */
const signalNumber = (name = ''): number | undefined => signals[name.startsWith('SIG') ? name : `SIG${name}`]

// A command in a guest over its SSH connection: its own end is the answer, its deadline kills it, its output is bounded
// here. What it leaves in the background keeps its channel until it ends.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { type ExecCommand, type ExecResult, execOutputMaxBytes, Refusal, refuse } from '@dormouse/contract'
import type { ClientChannel } from 'ssh2'
import { type Ended, resultOf } from './exec-result.ts'
import { holdScript, killScript, plainScript } from './exec-script.ts'
import type { SshLine } from './ssh-line.ts'

/** The guest's shell takes a command of so much in one piece; a longer one goes through a file. */
const scriptMaxBytes = 100_000
/** After a command's end: how long its last output may take, and how long silence means that there is no more. */
const drainMs = 800
const quietMs = 250
const killMs = 1_500

export async function execOverSsh(line: SshLine, command: ExecCommand): Promise<ExecResult> {
  const started = performance.now()
  const nonce = randomBytes(12).toString('hex')
  const script = await carried(line, plainScript(command, nonce), nonce)
  const run = await line.open(script, (channel) => new Run(channel, command.stdin))
  const ended = await run.ended(started + command.timeoutSecs * 1_000)
  if (!ended) {
    await kill(line, run.pid)
    run.close()
    refuse('guest_deadline', `the command ran longer than ${command.timeoutSecs} s and was ended`)
  }
  if (!run.closed) void letGo(line, run)
  return resultOf(ended, nonce, Math.round(performance.now() - started))
}

/** What a script prints; a refusal of its own where it does not end well. */
export async function runOverSsh(line: SshLine, script: string, timeoutMs: number): Promise<Ended> {
  const run = await line.open(script, (channel) => new Run(channel, null, false))
  const ended = await run.ended(performance.now() + timeoutMs)
  if (!ended) run.close()
  return ended ?? refuse('guest_deadline', 'the guest did not answer in time')
}

async function carried(line: SshLine, script: string, nonce: string): Promise<string> {
  if (Buffer.byteLength(script) <= scriptMaxBytes) return script
  const file = `/run/.dormouse-${nonce}.sh`
  const text = `rm -f ${file}\n${script}`
  const run = await line.open(`umask 077; cat >${file}`, (channel) => new Run(channel, text, false))
  const ended = await run.ended(performance.now() + 10_000)
  if (ended?.exitCode !== 0) refuse('command_not_run', 'the guest has no room for the command')
  return `exec /bin/sh ${file}`
}

/** What the command left behind still holds its output: something in the guest reads on, and the channel is free again. */
async function letGo(line: SshLine, run: Run): Promise<void> {
  if (run.pid === undefined) return
  try {
    const { stdout } = await runOverSsh(line, holdScript(run.pid), killMs)
    if (Number(stdout.toString()) > 0) run.close()
  } catch (error) {
    // Then the channel stays, and we read on ourselves.
    if (!(error instanceof Refusal)) throw error
  }
}

async function kill(line: SshLine, pid: number | undefined): Promise<void> {
  if (pid === undefined) return
  try {
    await runOverSsh(line, killScript(pid), killMs)
  } catch (error) {
    // The deadline is the answer; a guest that is gone by now has ended the command too.
    if (!(error instanceof Refusal)) throw error
  }
}

/** Collects what a command says until it has ended. */
class Run {
  readonly #channel: ClientChannel
  readonly #out = new Kept()
  readonly #err = new Kept()
  readonly #done = Promise.withResolvers<void>()
  readonly #lost = Promise.withResolvers<never>()
  #head: Buffer | undefined
  #exit: Pick<Ended, 'exitCode' | 'signal'> | undefined
  #heardAt = 0
  pid: number | undefined
  closed = false

  /** `named`: the first line of its output is its process. */
  constructor(channel: ClientChannel, input: string | null, named = true) {
    this.#channel = channel
    this.#head = named ? Buffer.alloc(0) : undefined
    this.#lost.promise.catch(() => undefined)
    channel.on('data', (bytes: Buffer) => this.#hear(this.#out, this.#behead(bytes)))
    channel.stderr.on('data', (bytes: Buffer) => this.#hear(this.#err, bytes))
    channel.on('exit', (code: number | null, name?: string) => {
      this.#exit = { exitCode: code ?? undefined, signal: code === null ? signalOf(name) : undefined }
      void this.#drain()
    })
    channel.on('error', () => undefined)
    channel.on('close', () => {
      this.closed = true
      if (this.#exit) this.#done.resolve()
      else this.#lost.reject(new Refusal('guest_unavailable', 'the guest went away while the command ran'))
    })
    channel.end(input ?? undefined)
  }

  /** Undefined at the deadline. */
  async ended(deadline: number): Promise<Ended | undefined> {
    const late = Promise.withResolvers<'late'>()
    const timer = setTimeout(() => late.resolve('late'), Math.max(0, deadline - performance.now()))
    const first = await Promise.race([this.#done.promise, late.promise, this.#lost.promise]).finally(() =>
      clearTimeout(timer),
    )
    if (first === 'late' && !this.#exit) return undefined
    await this.#done.promise
    const [stdout, stderr] = [this.#out.take(), this.#err.take()]
    return { exitCode: this.#exit?.exitCode, signal: this.#exit?.signal, stdout, stderr }
  }

  close(): void {
    this.#channel.close()
  }

  #hear(kept: Kept, bytes: Buffer): void {
    this.#heardAt = performance.now()
    kept.add(bytes)
  }

  #behead(bytes: Buffer): Buffer {
    if (!this.#head) return bytes
    const head = Buffer.concat([this.#head, bytes])
    const end = head.indexOf(10)
    this.#head = end < 0 ? head : undefined
    if (end < 0) return Buffer.alloc(0)
    this.pid = Number(head.toString('latin1', 0, end)) || undefined
    return head.subarray(end + 1)
  }

  /** The command is over; a child of it may hold its output open, and then nobody waits for that. */
  async #drain(): Promise<void> {
    const ends = performance.now() + drainMs
    this.#heardAt = performance.now()
    while (performance.now() < ends && performance.now() - this.#heardAt < quietMs) {
      await new Promise((resolve) => setTimeout(resolve, 20))
    }
    this.#done.resolve()
  }
}

/** The first part of a stream, one byte more than is told, so that a longer one shows; the rest is dropped. */
class Kept {
  #parts: Buffer[] | undefined = []
  #size = 0

  add(bytes: Buffer): void {
    const room = execOutputMaxBytes + 1 - this.#size
    if (!this.#parts || room <= 0) return
    this.#parts.push(Buffer.from(bytes.subarray(0, room)))
    this.#size += Math.min(bytes.length, room)
  }

  /** What was kept; from here on everything is dropped. */
  take(): Buffer {
    const whole = Buffer.concat(this.#parts ?? [])
    this.#parts = undefined
    return whole
  }
}

const signals: Record<string, number> = constants.signals

/** OpenSSH has no name for some; those are counted as SIGSYS, the one it leaves out most often. */
const signalOf = (name = ''): number =>
  signals[name.startsWith('SIG') ? name : `SIG${name}`] ?? constants.signals.SIGSYS

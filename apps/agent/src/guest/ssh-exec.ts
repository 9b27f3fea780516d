// A command in a guest over its SSH connection: its own end is the answer, its deadline kills it, its output is bounded
// here. What it leaves in the background keeps its channel until it ends.
import { randomBytes } from 'node:crypto'
import { constants } from 'node:os'
import { type ExecCommand, type ExecResult, execOutputMaxBytes, Refusal, refuse } from '@dormouse/contract'
import type { ClientChannel } from 'ssh2'
import { before, untilKilled } from './deadlines.ts'
import { type Ended, resultOf } from './exec-result.ts'
import { holdScript, killOldScript, killScript, plainScript } from './exec-script.ts'
import { unlessGone } from './file-failures.ts'
import type { SshLine } from './ssh-line.ts'

/** The guest's shell takes a command of so much in one piece; a longer one goes through a file. */
const scriptMaxBytes = 100_000
/** After a command's end: how long to wait for the end of its output, and how long silence means that there is no more. */
const drainMs = 500
const quietMs = 250
const settleMs = 300
const settleQuietMs = 80
/** A guest that is busy tells late what holds the output. */
const holdMs = 5_000
const killMs = 5_000
/** A guest’s word is untrusted: a longer first line names no process. */
const pidMaxBytes = 20
/** How far a guest's own count of seconds may be behind. */
const skewSecs = 2

export async function execOverSsh(line: SshLine, command: ExecCommand): Promise<ExecResult> {
  const started = performance.now()
  const nonce = randomBytes(12).toString('hex')
  const script = await carried(line, plainScript(command, nonce), nonce)
  const run = await line.open(script, (channel) => new Run(channel, command.stdin))
  const deadline = started + command.timeoutSecs * 1_000
  const over = run.over(deadline).catch((error: unknown) => {
    if (run.pid !== undefined) endLater(line, run.pid, command.timeoutSecs, deadline)
    throw error
  })
  if (!(await over)) {
    const { pid } = run
    if (pid !== undefined) await untilKilled(() => killed(line, pid))
    run.close()
    refuse('guest_deadline', `the command ran longer than ${command.timeoutSecs} s and was ended`)
  }
  if (!(await run.drained(drainMs, quietMs))) await letGo(line, run)
  return resultOf(run.take(), nonce, Math.round(performance.now() - started))
}

/** What a script prints; a refusal of its own where it does not end well. */
export async function runOverSsh(line: SshLine, script: string, timeoutMs: number): Promise<Ended> {
  const run = await line.open(script, (channel) => new Run(channel, null, false))
  if (await run.over(performance.now() + timeoutMs)) {
    await run.drained(timeoutMs, timeoutMs)
    return run.take()
  }
  run.close()
  return refuse('guest_deadline', 'the guest did not answer in time')
}

async function carried(line: SshLine, script: string, nonce: string): Promise<string> {
  if (Buffer.byteLength(script) <= scriptMaxBytes) return script
  const file = `/run/.dormouse-${nonce}.sh`
  const text = `rm -f ${file}\n${script}`
  const run = await line.open(`umask 077; cat >${file}`, (channel) => new Run(channel, text, false))
  const taken = await run.over(performance.now() + 10_000)
  if (!taken || run.take().exitCode !== 0) refuse('command_not_run', 'the guest has no room for the command')
  return `exec /bin/sh ${file}`
}

/**
 * The command is over and its output is not: what it left behind holds it, or the guest is slow. Something in the guest
 * takes over what is held, so that its writers live on when the channel goes; and by the time that it says so, all that
 * was written before is here.
 */
async function letGo(line: SshLine, run: Run): Promise<void> {
  // Where not even its first line is here, the guest is so slow that the rest is on its way.
  const pid = await run.named(holdMs)
  if (pid === undefined || (await run.drained(0, 0))) return
  try {
    const { stdout } = await runOverSsh(line, holdScript(pid), holdMs)
    await run.drained(settleMs, settleQuietMs)
    // A process that has left the session is not found: then the channel stays, and we read on ourselves.
    if (Number(stdout.toString()) > 0) run.close()
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    await run.drained(holdMs, holdMs)
  }
}

/** Its connection is lost and it may go on: at its deadline it is ended over the next one. */
function endLater(line: SshLine, pid: number, timeoutSecs: number, deadline: number): void {
  const end = async () => {
    await line.connect()
    await runOverSsh(line, killOldScript(pid, timeoutSecs - skewSecs), killMs)
  }
  setTimeout(() => void unlessGone(end()), deadline - performance.now()).unref()
}

/** A guest that is gone by now has ended the command too. */
async function killed(line: SshLine, pid: number): Promise<boolean> {
  try {
    return (await runOverSsh(line, killScript(pid), killMs)).exitCode === 0
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    return !line.connected
  }
}

/** Collects what a command says until it has ended. */
class Run {
  readonly #channel: ClientChannel
  readonly #out = new Kept()
  readonly #err = new Kept()
  readonly #exited = Promise.withResolvers<true>()
  readonly #closed = Promise.withResolvers<true>()
  readonly #named = Promise.withResolvers<true>()
  #head: Buffer | undefined
  #exit: Pick<Ended, 'exitCode' | 'signal'> | undefined
  #heardAt = 0
  pid: number | undefined

  /** `named`: the first line of its output is its process. */
  constructor(channel: ClientChannel, input: string | null, named = true) {
    this.#channel = channel
    this.#head = named ? Buffer.alloc(0) : undefined
    this.#exited.promise.catch(() => undefined)
    channel.on('data', (bytes: Buffer) => this.#hear(this.#out, this.#behead(bytes)))
    channel.stderr.on('data', (bytes: Buffer) => this.#hear(this.#err, bytes))
    channel.on('exit', (code: number | null, name?: string) => {
      this.#exit = { exitCode: code ?? undefined, signal: code === null ? signalOf(name) : undefined }
      this.#heardAt = performance.now()
      this.#exited.resolve(true)
    })
    channel.on('error', () => undefined)
    channel.on('close', () => {
      this.#exited.reject(new Refusal('guest_unavailable', 'the guest went away while the command ran'))
      this.#closed.resolve(true)
      this.#named.resolve(true)
    })
    channel.end(input ?? undefined)
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
    const isLine = end >= 0 && end <= pidMaxBytes
    const mayBecomeLine = end < 0 && head.length <= pidMaxBytes
    this.#head = mayBecomeLine ? head : undefined
    if (!isLine) return mayBecomeLine ? Buffer.alloc(0) : head
    this.pid = Number(head.toString('latin1', 0, end)) || undefined
    this.#named.resolve(true)
    return head.subarray(end + 1)
  }
}

/** False where it is not there in time. */
const within = async (promise: Promise<true>, ms: number): Promise<boolean> =>
  (await before(performance.now() + ms, promise)) ?? false

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

/** OpenSSH has no name for some of them (SIGBUS, SIGSYS, SIGXCPU, …): which one it was is then not known. */
const signalOf = (name = ''): number | undefined => signals[name.startsWith('SIG') ? name : `SIG${name}`]

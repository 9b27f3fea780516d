// One connection to a machine, made by the user's own `ssh`: runs commands within limits, and opens connections from there.
// Knows no installation. Keys, passwords, known hosts, jump hosts and `~/.ssh/config` are ssh's affair.
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Duplex, type Readable } from 'node:stream'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import type { Target } from './target.ts'

export interface SessionOptions {
  /** Arguments for `ssh` beside the target. */
  args: readonly string[]
}

export interface Ended {
  /** 255 also if a signal ended the command. */
  code: number
  stdout: string
  stderr: string
}

export interface RunOptions {
  stdin?: string | Readable
  timeoutMs?: number
  /** Gets each line of output as it arrives, cut to a length that a line of a terminal has. */
  onLine?: (line: string) => void
}

const dialSecs = 15
const keepaliveSecs = 10
const keepaliveMissed = 3
const defaultTimeoutMs = 60_000
/** A hostile host can fill no memory. */
const maxOutputBytes = 256 * 1024
const maxLineChars = 120
/** `ssh` exits with it if the connection fails, but a command may do so, too. */
const sshFailed = 255

/** Printed by the machine once the login has succeeded. Its `cat` ends when this process does, and the connection with it. */
const ready = 'dormouse-connected'
const holdOpen = `echo ${ready}; exec cat >/dev/null`

export class Session {
  readonly target: Target
  readonly #folder: string
  readonly #master: ChildProcessWithoutNullStreams
  readonly #signal: AbortSignal
  #masterErrors = ''

  private constructor(target: Target, { args }: SessionOptions, terminal: Terminal) {
    this.target = target
    this.#signal = terminal.signal
    // A short path: a socket's has 107 bytes at most.
    this.#folder = mkdtempSync(join(tmpdir(), 'dormouse-ssh-'))
    const options = [
      ...['ControlMaster=yes', `ControlPath=${this.#socket}`, 'ControlPersist=no', `ConnectTimeout=${dialSecs}`],
      ...[`ServerAliveInterval=${keepaliveSecs}`, `ServerAliveCountMax=${keepaliveMissed}`],
      // ssh asks its questions at the terminal itself, or not at all.
      `BatchMode=${terminal.interactive ? 'no' : 'yes'}`,
      // What the user's configuration adds to a login is not for this one.
      ...['RemoteCommand=none', 'ClearAllForwardings=yes', 'LogLevel=ERROR'],
    ]
    this.#master = ssh(['-T', ...asOptions(options), ...args, ...target.words, holdOpen], this.#signal)
    this.#master.stderr.on('data', (chunk: Buffer) => {
      this.#masterErrors = (this.#masterErrors + chunk.toString()).slice(-4_096)
    })
    this.#master.once('close', () => rmSync(this.#folder, { recursive: true, force: true }))
  }

  get #socket(): string {
    return join(this.#folder, 'socket')
  }

  /** Connects and logs in. */
  static async open(target: Target, options: SessionOptions, terminal: Terminal): Promise<Session> {
    const session = new Session(target, options, terminal)
    try {
      await session.#connected()
      return session
    } catch (error) {
      session[Symbol.dispose]()
      terminal.signal.throwIfAborted()
      throw error
    }
  }

  #connected(): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    let said = ''
    this.#master.stdout.on('data', (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-4_096)
      if (said.split('\n').includes(ready)) resolve()
    })
    this.#master.once('error', (error) => reject(startFailed(error)))
    this.#master.once('close', () => reject(explained(this.target, this.#masterErrors)))
    return promise
  }

  /** Runs a command line to its end. Output above a limit ends it. */
  async run(command: string, options: RunOptions = {}): Promise<Ended> {
    const ended = await this.#follow(this.#through([...this.target.words, command]), options)
    if (ended.code === sshFailed && !(await this.#isOpen())) throw this.#cut()
    return ended
  }

  /** A connection from that machine to another, with that machine's resolver and routes. Rejects if it is not made in time. */
  async forward(host: string, port: number): Promise<Duplex> {
    const far = host.includes(':') ? `[${host}]` : host
    const child = this.#through(['-W', `${far}:${port}`, ...this.target.words])
    const before = this.#masterErrors.length
    let errors = ''
    child.stderr.on('data', (chunk: Buffer) => {
      errors = (errors + chunk.toString()).slice(-4_096)
    })
    child.stdin.on('error', () => undefined)
    const stream = Duplex.from({ readable: child.stdout, writable: child.stdin }).on('error', () => undefined)
    stream.once('close', () => child.kill())
    child.once('close', (code) => {
      const why = lastLine(this.#masterErrors.slice(before)) || lastLine(errors)
      if (code !== 0) stream.destroy(new Error(why || `no connection to ${far}:${port}`))
    })
    return stream
  }

  /** Ends the connection. */
  [Symbol.dispose](): void {
    this.#master.stdin.end()
    this.#master.kill()
  }

  /** Over the connection that is open: without it, `ProxyCommand` fails, and no second connection is made. */
  #through(words: readonly string[]): ChildProcessWithoutNullStreams {
    const options = [`ControlPath=${this.#socket}`, 'ControlMaster=no', 'BatchMode=yes', 'ProxyCommand=false']
    return ssh(['-T', ...asOptions(options), ...words], this.#signal)
  }

  async #isOpen(): Promise<boolean> {
    const child = this.#through(['-O', 'check', ...this.target.words])
    return new Promise((resolve) => {
      child.once('error', () => resolve(false)).once('close', (code) => resolve(code === 0))
    })
  }

  #follow(child: ChildProcessWithoutNullStreams, { stdin = '', timeoutMs = defaultTimeoutMs, onLine }: RunOptions) {
    return new Promise<Ended>((resolve, reject) => {
      const output = new Output(onLine)
      const fail = (error: Error) => {
        clearTimeout(timer)
        child.kill()
        reject(error)
      }
      const timer = setTimeout(() => fail(this.#silent(timeoutMs)), timeoutMs)
      for (const kind of ['stdout', 'stderr'] as const)
        child[kind].on('data', (chunk: Buffer) => {
          if (!output.add(kind, chunk)) fail(this.#tooMuch())
        })
      child.once('error', (error) => fail(this.#signal.aborted ? this.#cut() : startFailed(error)))
      child.once('close', (code) => {
        clearTimeout(timer)
        resolve({ code: code ?? sshFailed, ...output.texts() })
      })
      // A command that ends early does not read all of it; its exit code says why.
      child.stdin.on('error', () => undefined)
      if (typeof stdin === 'string') return void child.stdin.end(stdin)
      stdin.on('error', fail).pipe(child.stdin)
      child.once('close', () => stdin.destroy())
    })
  }

  #cut(): Error {
    if (this.#signal.aborted) return this.#signal.reason as Error
    return new CliError(
      `the connection to ${this.target.label} was lost`,
      'run the same command again; it continues with what is missing',
      exitCodes.unavailable,
      { code: 'connection_lost' },
    )
  }

  #silent(timeoutMs: number): CliError {
    const secs = Math.round(timeoutMs / 1_000)
    return new CliError(
      `a command on ${this.target.label} did not end within ${secs} s`,
      'look at the load of the host, then run the same command again',
      exitCodes.timedOut,
    )
  }

  #tooMuch(): CliError {
    return new CliError(
      `a command on ${this.target.label} printed more than ${maxOutputBytes / 1024} KiB`,
      'look at what the login of this user prints, then run the same command again',
    )
  }
}

/** Keeps the output within its limit, and shows its lines. */
class Output {
  readonly #chunks: Record<'stdout' | 'stderr', Buffer[]> = { stdout: [], stderr: [] }
  readonly #onLine: ((line: string) => void) | undefined
  #bytes = 0

  constructor(onLine: ((line: string) => void) | undefined) {
    this.#onLine = onLine
  }

  /** False above the limit. With `onLine`, the output is shown and only its end is kept. */
  add(kind: 'stdout' | 'stderr', chunk: Buffer): boolean {
    this.#chunks[kind].push(chunk)
    this.#bytes += chunk.length
    if (!this.#onLine) return this.#bytes <= maxOutputBytes
    while (this.#bytes > maxOutputBytes && this.#chunks[kind].length > 0)
      this.#bytes -= this.#chunks[kind].shift()!.length
    const line = chunk.toString('utf8').trimEnd().split('\n').at(-1)
    if (line) this.#onLine(line.slice(0, maxLineChars))
    return true
  }

  texts(): { stdout: string; stderr: string } {
    const { stdout, stderr } = this.#chunks
    return { stdout: Buffer.concat(stdout).toString(), stderr: Buffer.concat(stderr).toString() }
  }
}

const ssh = (words: readonly string[], signal: AbortSignal) => spawn('ssh', words, { stdio: 'pipe', signal })
const asOptions = (options: readonly string[]): string[] => options.flatMap((option) => ['-o', option])
const lastLine = (text: string): string => (text.trim().split('\n').at(-1) ?? '').trim().slice(0, 300)

function startFailed(error: Error & { code?: string }): CliError {
  const why = error.code === 'ENOENT' ? 'it is not installed on this machine' : error.message
  return new CliError(`\`ssh\` did not start: ${why}`, 'install OpenSSH’s client (openssh-client)', exitCodes.failed)
}

/** By ssh's last words, which name the cause. */
function explained({ label, words }: Target, errors: string): CliError {
  const why = lastLine(errors) || 'ssh ended without a message'
  const command = `ssh ${words.join(' ')}`
  if (/host key verification failed|host key.*(changed|revoked)/i.test(errors))
    return new CliError(
      `${label} is not trusted: its key is not the one in known_hosts`,
      `run \`${command}\` once, compare the key that it shows with the host's, then run the same command again`,
      exitCodes.denied,
      { code: 'host_key' },
    )
  if (/permission denied|too many authentication failures|no such identity/i.test(errors))
    return new CliError(
      `${label} did not accept the login: ${why}`,
      `\`${command}\` must work first: check the user, load the key into the SSH agent, or name a key file with --identity`,
      exitCodes.denied,
    )
  return new CliError(
    `${label} is unreachable: ${why}`,
    `check the name, the port and the firewall: \`${command}\` must work`,
    exitCodes.unavailable,
  )
}

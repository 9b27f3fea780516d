// One SSH connection to a machine: runs commands within limits, and opens connections from there. Knows no installation.
import type { Duplex, Readable } from 'node:stream'
import type { ClientChannel, NextAuthHandler } from 'ssh2'
import ssh2 from 'ssh2'
import { CliError, exitCodes } from '../failures.ts'
import type { Terminal } from '../terminal.ts'
import { HostKey, type HostKeyOptions } from './host-key.ts'
import { Login, type LoginOptions } from './login.ts'
import type { Target } from './target.ts'

export interface SessionOptions extends HostKeyOptions, LoginOptions {
  /** Machines that the connection goes through, the nearest first. Their keys must be in known_hosts, or are asked for. */
  jumps?: readonly Target[]
}

export interface Ended {
  /** Null where a signal ended the command. */
  code: number | null
  stdout: string
  stderr: string
}

interface SessionParts {
  target: Target
  client: ssh2.Client
  password: string | undefined
  signal: AbortSignal
}

export interface RunOptions {
  stdin?: string | Readable
  timeoutMs?: number
  /** Gets each line of output as it arrives, cut to a length that a line of a terminal has. */
  onLine?: (line: string) => void
}

/** A question at the terminal takes as long as it takes: only the network's part is limited. */
const dialMs = 15_000
const keepaliveMs = 10_000
const keepaliveMissed = 3
const defaultTimeoutMs = 60_000
/** A hostile host can fill no memory. */
const maxOutputBytes = 256 * 1024
const maxLineChars = 120

export class Session {
  /** The password of the login, if one was typed. */
  readonly password: string | undefined
  readonly target: Target
  readonly #client: ssh2.Client
  readonly #signal: AbortSignal
  #lost: Error | undefined

  private constructor({ target, client, password, signal }: SessionParts) {
    this.target = target
    this.password = password
    this.#client = client
    this.#signal = signal
    client.on('error', (error) => {
      this.#lost ??= error
    })
    client.on('close', () => {
      this.#lost ??= new Error('closed')
    })
  }

  /** Connects, checks the host's key, and logs in: first to the machines that it goes through, each from the one before. */
  static async open(target: Target, options: SessionOptions, terminal: Terminal): Promise<Session> {
    const { jumps = [], hostKey, ...common } = options
    const [last, before] = [jumps.at(-1), jumps.slice(0, -1)]
    const through = last && (await Session.open(last, { ...common, jumps: before, isJump: true }, terminal))
    try {
      return await Session.#openOne(target, { ...common, ...(hostKey !== undefined && { hostKey }) }, terminal, through)
    } catch (error) {
      through?.[Symbol.dispose]()
      throw error
    }
  }

  static async #openOne(
    target: Target,
    options: SessionOptions,
    terminal: Terminal,
    through: Session | undefined,
  ): Promise<Session> {
    const hostKey = new HostKey(target, options, terminal)
    const login = new Login(target, options, terminal)
    const client = new ssh2.Client()
    const abort = () => client.destroy()
    const { signal } = terminal
    signal.addEventListener('abort', abort, { once: true })
    client.on('close', () => {
      signal.removeEventListener('abort', abort)
      through?.[Symbol.dispose]()
    })
    try {
      await connect(client, target, hostKey, login, await through?.forward(target.host, target.port))
      return new Session({ target, client, password: login.password, signal })
    } catch (error) {
      client.destroy()
      signal.throwIfAborted()
      throw error instanceof CliError ? error : explained(target, error as Error, login.notes, through?.target)
    }
  }

  /** Runs a command line to its end. Output above a limit ends it. */
  run(command: string, options: RunOptions = {}): Promise<Ended> {
    return this.#open(
      (done) => this.#client.exec(command, done),
      (channel) => this.#follow(channel, options),
    )
  }

  /** A connection from that machine to another, with that machine's resolver and routes. Rejects where nothing answers for long. */
  async forward(host: string, port: number): Promise<Duplex> {
    const late = Promise.withResolvers<never>()
    const error = Object.assign(new Error(`no answer within ${dialMs / 1_000} s`), { code: 'ETIMEDOUT' })
    const timer = setTimeout(late.reject, dialMs, error)
    const opened = this.#open(
      (done) => this.#client.forwardOut('127.0.0.1', 0, host, port, done),
      async (channel) => channel.on('error', () => undefined),
    )
    return Promise.race([opened, late.promise]).finally(() => clearTimeout(timer))
  }

  /** Ends the connection. */
  [Symbol.dispose](): void {
    this.#client.destroy()
  }

  /** `wrap` gets the channel in the tick in which it opens: a short command's end may come with it. */
  #open<T>(
    begin: (done: (error: Error | undefined, channel: ClientChannel) => void) => void,
    wrap: (channel: ClientChannel) => Promise<T>,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const onClose = () => reject(this.#cut())
      if (this.#lost) return onClose()
      this.#client.once('close', onClose)
      const opened = (error: Error | undefined, channel: ClientChannel) => {
        this.#client.off('close', onClose)
        if (error) reject(error)
        else wrap(channel).then(resolve, reject)
      }
      try {
        begin(opened)
      } catch {
        // It throws where the connection was lost in this tick.
        onClose()
      }
    })
  }

  #follow(channel: ClientChannel, { stdin, timeoutMs = defaultTimeoutMs, onLine }: RunOptions): Promise<Ended> {
    keepUntilExit(channel)
    return new Promise<Ended>((resolve, reject) => {
      // Undefined until the server reports an end: a cut connection closes the channel without one.
      let code: number | null | undefined
      const output = new Output(onLine)
      const fail = (error: Error) => {
        clearTimeout(timer)
        channel.close()
        reject(error)
      }
      const timer = setTimeout(() => fail(this.#silent(timeoutMs)), timeoutMs)
      const take = (kind: 'stdout' | 'stderr') => (chunk: Buffer) => {
        if (!output.add(kind, chunk)) fail(this.#tooMuch())
      }
      channel.on('data', take('stdout')).stderr.on('data', take('stderr'))
      for (const stream of [channel, channel.stderr]) stream.on('error', () => undefined)
      channel.on('exit', (given: number | null) => {
        code = given ?? null
      })
      channel.on('close', () => {
        clearTimeout(timer)
        if (code === undefined) reject(this.#cut())
        else resolve({ code, ...output.texts() })
      })
      feed(channel, stdin, fail)
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

/** A command that ends early does not read all of it; its exit code says why. */
function feed(channel: ClientChannel, stdin: string | Readable = '', fail: (error: Error) => void): void {
  if (typeof stdin === 'string') return void channel.end(stdin)
  stdin.on('error', fail).pipe(channel)
  channel.once('close', () => stdin.destroy())
}

/** Node would close the channel once both directions have ended. A server that gets this before the command's exit code is
 * known never sends the code. */
function keepUntilExit(channel: ClientChannel): void {
  const states = channel as unknown as Record<'_readableState' | '_writableState', { autoDestroy: boolean }>
  for (const state of [states._readableState, states._writableState]) state.autoDestroy = false
}

function connect(
  client: ssh2.Client,
  target: Target,
  hostKey: HostKey,
  login: Login,
  sock: Duplex | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let dialling: NodeJS.Timeout | undefined = setTimeout(
      () => reject(Object.assign(new Error('no answer'), { code: 'ETIMEDOUT' })),
      dialMs,
    )
    const reached = () => {
      clearTimeout(dialling)
      dialling = undefined
    }
    client.on('ready', resolve)
    client.on('error', (error) => {
      reached()
      reject(error)
    })
    client.on('close', () => reject(new Error('the server closed the connection')))
    client.connect({
      ...(sock ? { sock } : { host: target.host, port: target.port }),
      username: target.user,
      readyTimeout: 0,
      keepaliveInterval: keepaliveMs,
      keepaliveCountMax: keepaliveMissed,
      algorithms: { serverHostKey: hostKey.algorithms() },
      hostVerifier: (key: Buffer, accept: (isRight: boolean) => void) => {
        reached()
        hostKey.check(key).then(
          () => accept(true),
          (error: Error) => {
            reject(error)
            accept(false)
          },
        )
      },
      authHandler: (allowed, _partial, next: NextAuthHandler) => {
        login.next(allowed as string[] | null).then(
          (method) => next(method ?? (false as never)),
          (error: Error) => {
            reject(error)
            next(false as never)
          },
        )
      },
    })
  })
}

function explained(
  { label, host, port }: Target,
  error: Error & { code?: string; level?: string },
  notes: string[],
  through: Target | undefined,
) {
  if (error.level === 'client-authentication')
    return new CliError(
      [`${label} did not accept the login`, ...notes].join('; '),
      'check the user, load the key into the SSH agent, or name a key file with --identity; a password is asked at a terminal',
      exitCodes.denied,
    )
  const causes: Record<string, string> = {
    ENOTFOUND: `the name ${host} is not known`,
    EAI_AGAIN: `the name ${host} could not be looked up`,
    ECONNREFUSED: `no SSH server listens on port ${port} of ${host}`,
    ETIMEDOUT: `${host} does not answer on port ${port}`,
    EHOSTUNREACH: `there is no route to ${host}`,
    ENETUNREACH: `there is no route to ${host}`,
  }
  return new CliError(
    `${label} is unreachable${through ? ` from ${through.label}` : ''}: ${causes[error.code ?? ''] ?? error.message.slice(0, 200)}`,
    'check the name, the port and the firewall: `ssh` with the same user and host must work',
    exitCodes.unavailable,
  )
}

// A command that lasts, as an object: its output, its input, its end.
import type { ExecStateJson, ExecStream } from '@dormouse/contract'
import { type Camel, camel } from './camel.ts'
import type { Client } from './client.ts'
import { DormouseError, InvalidRequestError } from './errors.ts'
import type { ExecOutput, FollowExecOptions } from './exec-output.ts'
import type { CallOptions } from './http.ts'
import { type NamesOf, refuseUnknown, wholeSeconds } from './options.ts'
import { type Inspect, inspect, showFields } from './shown-fields.ts'
import type { AttachOptions, Terminal } from './terminal.ts'

export type ExecState = Camel<ExecStateJson>

/** How a command ended. */
export type ExecEnd = Pick<ExecState, 'exitCode' | 'signal' | 'reason' | 'endedAt'>

interface Listening {
  /** Called with the output as it comes, as UTF-8. */
  onStdout?: (text: string) => void
  onStderr?: (text: string) => void
  signal?: AbortSignal
}

export interface StartOptions extends Listening {
  cwd?: string
  envs?: Record<string, string>
  /** A string is the whole input. `true`: send it with `sendStdin`. */
  stdin?: string | true
  /** Run it in a terminal of this size. */
  tty?: { cols: number; rows: number }
  /** It is killed after this long awake, rounded up to whole seconds. By default never. */
  timeoutMs?: number
  /** The desktop does not hibernate by itself while it runs. */
  keepAwake?: boolean
  /**
   * While its output is read, none is dropped: the command waits for the reader. By default so if `onStdout` or `onStderr` is given.
   * Otherwise it never waits, and the last 16 MiB of each stream are kept.
   */
  waitForReader?: boolean
  idempotencyKey?: string
  /** `allow` wakes a desktop that is asleep, `never` does not; by default its `wakeOn` decides. */
  wake?: CallOptions['wake']
}

export interface ConnectExecOptions extends Listening {
  /** Begin here; by default with the first byte that is kept. */
  offsets?: Partial<Record<ExecStream, number>>
}

const listeningNames: NamesOf<Listening> = { onStdout: true, onStderr: true, signal: true }
const connectNames: NamesOf<ConnectExecOptions> = { ...listeningNames, offsets: true }
const startNames: NamesOf<StartOptions> = {
  ...{ ...listeningNames, cwd: true, envs: true, stdin: true, tty: true, timeoutMs: true, keepAwake: true },
  ...{ waitForReader: true, idempotencyKey: true, wake: true },
}

export class Exec {
  readonly id: string
  readonly #client: Client
  readonly #desktopId: string
  readonly #following: Promise<unknown>
  #seen: ExecStateJson

  private constructor(client: Client, seen: ExecStateJson, options: ConnectExecOptions) {
    this.id = seen.id
    this.#client = client
    this.#desktopId = seen.desktop_id
    this.#seen = seen
    const { onStdout, onStderr } = options
    const each = [
      onStdout && this.#listen('stdout', onStdout, options),
      onStderr && this.#listen('stderr', onStderr, options),
    ]
    this.#following = Promise.all(each)
    // `wait` throws what has failed.
    this.#following.catch(() => undefined)
  }

  static async start(
    client: Client,
    desktopId: string,
    command: string | string[],
    options: StartOptions,
  ): Promise<Exec> {
    refuseUnknown('start', options, startNames)
    const { cwd, envs, stdin, tty, timeoutMs, keepAwake, idempotencyKey, signal, wake } = options
    const listens = options.onStdout !== undefined || options.onStderr !== undefined
    const body = {
      ...{ command, cwd, env: envs, stdin, tty, keep_awake: keepAwake },
      wait_for_reader: options.waitForReader ?? (listens || undefined),
      timeout_secs: wholeSeconds('timeoutMs', timeoutMs),
    }
    return new Exec(client, await client.execs.start(desktopId, body, { idempotencyKey, signal, wake }), options)
  }

  static async connect(client: Client, desktopId: string, execId: string, options: ConnectExecOptions): Promise<Exec> {
    refuseUnknown('connect', options, connectNames)
    return new Exec(client, await client.execs.get(desktopId, execId, { signal: options.signal }), options)
  }

  /** As last read; `refresh()` reads it again. */
  get state(): ExecState {
    return camel(this.#seen)
  }

  /** Its id, so that it can be used in a text. */
  toString(): string {
    return this.id
  }

  toJSON(): ExecState {
    return this.state
  }

  [inspect](_depth: number, options: unknown, inspectValue?: Inspect) {
    const { state, exitCode } = this.state
    return showFields('Exec', { id: this.id, state, exitCode }, options, inspectValue)
  }

  async refresh(options?: CallOptions): Promise<ExecState> {
    this.#seen = await this.#client.execs.get(this.#desktopId, this.id, options)
    return this.state
  }

  /** The output of one stream as bytes, until its end. Survives lost connections and a sleep of the desktop. */
  output(options: FollowExecOptions = {}): AsyncGenerator<ExecOutput, void, undefined> {
    return this.#client.execs.follow(this.#desktopId, this.id, options)
  }

  /** Joins its terminal: see `Terminal`. It was started with `tty`. */
  attach(options: AttachOptions = {}): Terminal {
    if (!this.#seen.tty)
      throw new InvalidRequestError('the exec has no terminal; start it with `tty`, or read `output()`')
    return this.#client.execs.attach(this.#seen, options)
  }

  /** Waits for the end of the command, and of what `onStdout` and `onStderr` get. Throws if the exec is lost: it has no end then. */
  async wait({ signal }: { signal?: AbortSignal } = {}): Promise<ExecEnd> {
    // If the output is listened to, its end comes with it.
    await this.#following
    this.#seen = await this.#client.execs.ended(this.#desktopId, this.id, { signal })
    const { state, exitCode, signal: ended, reason, endedAt } = this.state
    if (state === 'lost')
      throw new DormouseError(`the exec is lost (${reason}); its output is kept, its end is not known`)
    return { exitCode, signal: ended, reason, endedAt }
  }

  /** Appends to the input. Calls must not overlap. */
  async sendStdin(
    data: string | Uint8Array<ArrayBuffer>,
    { eof, ...call }: CallOptions & { eof?: boolean } = {},
  ): Promise<void> {
    const bytes = typeof data === 'string' ? new TextEncoder().encode(data) : data
    const { end } = this.#seen.stdin
    const next = await this.#client.execs.write(this.#desktopId, this.id, end, bytes, { eof, ...call })
    this.#seen = { ...this.#seen, stdin: { ...this.#seen.stdin, end: next } }
  }

  /** Sends a signal to the command's process group; by default SIGKILL. */
  async kill(signal = 9, options?: CallOptions): Promise<ExecState> {
    this.#seen = await this.#client.execs.signal(this.#desktopId, this.id, signal, options)
    return this.state
  }

  async resize(cols: number, rows: number, options?: CallOptions): Promise<void> {
    await this.#client.execs.resize(this.#desktopId, this.id, { cols, rows }, options)
  }

  /** Kills it if it runs, and deletes its output. */
  async delete(options?: CallOptions): Promise<void> {
    await this.#client.execs.delete(this.#desktopId, this.id, options)
  }

  async #listen(
    stream: ExecStream,
    tell: (text: string) => void,
    { offsets, signal }: ConnectExecOptions,
  ): Promise<void> {
    const decoder = new TextDecoder()
    for await (const { bytes } of this.output({ stream, offset: offsets?.[stream], signal })) {
      const text = decoder.decode(bytes, { stream: true })
      if (text) tell(text)
    }
    const rest = decoder.decode()
    if (rest) tell(rest)
  }
}

// A terminal in a desktop, joined over one WebSocket, or over plain requests if the service or the path to it has none. Both
// use offsets: after a lost connection or a sleep it goes on without a lost or repeated byte.
import type { AttachRequest, ExecStateJson } from '@dormouse/contract'
import { type AttachMessage, AttachSocket, protocol } from './attach-socket.ts'
import { deferred } from './deferred.ts'
import { DormouseError } from './errors.ts'
import { type ExecOutput, type FollowExecOptions, patiently } from './exec-output.ts'
import type { CallOptions, Http } from './http.ts'
import { path } from './path.ts'
import { TerminalInput } from './terminal-input.ts'

export interface AttachOptions {
  /** The offset of the first byte of output; by default the first that is kept. */
  offset?: number
  signal?: AbortSignal
}

export interface TerminalSize {
  cols: number
  rows: number
}

/** The calls that it makes. */
interface TerminalCalls {
  get(desktopId: string, execId: string, call?: CallOptions): Promise<ExecStateJson>
  follow(desktopId: string, execId: string, options?: FollowExecOptions): AsyncGenerator<ExecOutput, void, undefined>
  write(
    desktopId: string,
    execId: string,
    offset: number,
    bytes: Uint8Array<ArrayBuffer>,
    call?: CallOptions,
  ): Promise<number>
  resize(desktopId: string, execId: string, size: TerminalSize, call?: CallOptions): Promise<ExecStateJson>
}

/** Sent ahead of what was read. */
const windowBytes = 1024 * 1024
/** This many failures to open in a row, while other requests pass, mean that there are no WebSockets. */
const openAttempts = 2
const pause = { leastMs: 100, mostMs: 10_000 }
/** A connection that lasts this long was a good one. */
const goodMs = 5_000

export class Terminal {
  /** The output until the end of the program. Reading it drives the connection: nothing is sent while it is not read. */
  readonly output: AsyncGenerator<ExecOutput, void, undefined>
  /** How it ended, once the output has. */
  exit: ExecStateJson | undefined
  readonly #http: Http
  readonly #calls: TerminalCalls
  readonly #exec: ExecStateJson
  readonly #signal: AbortSignal
  readonly #closed = new AbortController()
  readonly #input = new TerminalInput()
  #offset: number
  #size: TerminalSize | undefined
  #socket: AttachSocket | undefined
  #failedToOpen = 0
  #wake: () => void = () => undefined
  /** A desktop that falls asleep meanwhile is not woken for it. */
  #wish: CallOptions['wake']

  constructor(http: Http, calls: TerminalCalls, exec: ExecStateJson, { offset = 0, signal }: AttachOptions) {
    this.#http = http
    this.#calls = calls
    this.#exec = exec
    this.#offset = offset
    this.#signal = signal ? AbortSignal.any([signal, this.#closed.signal]) : this.#closed.signal
    this.output = this.#run()
  }

  /** Resolves when the guest has accepted the bytes. Rejects if the program takes no more, or the terminal is closed. */
  write(data: string | Uint8Array<ArrayBuffer>): Promise<void> {
    return this.#input.add(typeof data === 'string' ? new TextEncoder().encode(data) : data)
  }

  /** If several sizes come in a row, only the last one may count. */
  resize(size: TerminalSize): void {
    this.#size = size
    if (this.#socket) this.#sendSize(this.#socket)
    else this.#wake()
  }

  /** Leaves the program running. */
  close(): void {
    this.#closed.abort(new DormouseError('the terminal was closed'))
  }

  async *#run(): AsyncGenerator<ExecOutput, void, undefined> {
    try {
      for (let lost = 0; !this.exit; lost++) {
        this.#signal.throwIfAborted()
        if (lost > 0) await this.#rest(lost)
        const socket = await this.#open()
        if (socket === 'retry') continue
        if (!socket) return yield* this.#overHttp()
        const since = this.#http.clock.now()
        for await (const output of this.#overSocket(socket)) {
          lost = 0
          yield output
        }
        if (this.#http.clock.now() - since > goodMs) lost = 0
      }
    } finally {
      this.#input.close(new DormouseError('the terminal was closed'))
    }
  }

  async #open(): Promise<AttachSocket | 'retry' | undefined> {
    const { desktop_id: desktopId, id } = this.#exec
    const of = path`/v1/desktops/${desktopId}/execs/${id}/attach`
    const query = { offset: this.#offset, window: windowBytes }
    const socket = this.#http.socket({ path: of, query, wake: this.#wish }, protocol)
    if (!socket) return undefined
    const opened = await AttachSocket.open(socket, this.#signal)
    this.#signal.throwIfAborted()
    if (opened) {
      this.#failedToOpen = 0
      this.#wish = 'never'
      return opened
    }
    // A WebSocket does not show why it was refused. This request gets the same refusal.
    await patiently(
      this.#http,
      () => this.#calls.get(desktopId, id, { retries: 0, signal: this.#signal, wake: this.#wish }),
      this.#signal,
    )
    this.#wish = 'never'
    return ++this.#failedToOpen < openAttempts ? 'retry' : undefined
  }

  async *#overSocket(socket: AttachSocket): AsyncGenerator<ExecOutput, void, undefined> {
    const stop = () => socket.close()
    this.#signal.addEventListener('abort', stop)
    try {
      for (let message = await socket.next(); message; message = await socket.next()) {
        if ('bytes' in message) {
          const offset = this.#offset
          this.#offset += message.bytes.length
          yield { bytes: message.bytes, offset, nextOffset: this.#offset, state: 'running', isEnd: false }
          socket.request({ read: { stdout: this.#offset } })
        } else this.#hear(message, socket)
        if (this.exit) return yield this.#endOf(this.exit)
      }
      this.#signal.throwIfAborted()
    } finally {
      this.#signal.removeEventListener('abort', stop)
      this.#socket = undefined
      this.#input.onMore = () => undefined
      socket.close()
    }
  }

  #hear(note: Exclude<AttachMessage, { bytes: unknown }>, socket: AttachSocket): void {
    if ('attached' in note) this.#begin(note.attached, socket)
    else if ('accepted' in note) {
      this.#input.accept(note.accepted)
      if (note.closed) this.#input.close(noMoreInput())
    } else if ('skipped' in note) this.#offset = note.skipped.offset
    else if ('exit' in note) {
      // What the guest has accepted may not be confirmed yet.
      this.#input.accept(note.exit.stdin.end)
      this.exit = note.exit
    } else if ('end' in note && note.end.cause === 'unreadable') throw new DormouseError(note.end.why)
  }

  #begin({ stdin, stdout }: { stdin: number; stdout: number }, socket: AttachSocket): void {
    this.#socket = socket
    this.#offset = stdout
    this.#sendSize(socket)
    this.#input.onMore = () => {
      for (let piece = this.#input.take(); piece; piece = this.#input.take()) socket.input(piece.bytes)
    }
    this.#input.begin(stdin)
    this.#input.onMore()
  }

  #sendSize(socket: AttachSocket): void {
    if (this.#size) socket.request({ resize: this.#size } satisfies AttachRequest)
  }

  #endOf({ state }: ExecStateJson): ExecOutput {
    return { bytes: new Uint8Array(), offset: this.#offset, nextOffset: this.#offset, state, isEnd: true }
  }

  async *#overHttp(): AsyncGenerator<ExecOutput, void, undefined> {
    const over = new AbortController()
    const signal = AbortSignal.any([over.signal, this.#signal])
    const { desktop_id: desktopId, id } = this.#exec
    const { promise: failed, reject } = deferred<never>()
    failed.catch(() => undefined)
    this.#sendOverHttp(signal).catch((error) => over.signal.aborted || reject(error))
    const following = this.#calls.follow(desktopId, id, { offset: this.#offset, signal, wake: this.#wish })
    try {
      for (;;) {
        const next = await Promise.race([following.next(), failed])
        if (next.done) return
        this.#offset = next.value.nextOffset
        if (next.value.isEnd) {
          const exit = await patiently(
            this.#http,
            () => this.#calls.get(desktopId, id, { signal, wake: 'never' }),
            signal,
          )
          this.#input.accept(exit.stdin.end)
          this.exit = exit
        }
        yield next.value
      }
    } finally {
      over.abort()
    }
  }

  /** What is typed while other keys are on their way is sent as one piece. */
  async #sendOverHttp(signal: AbortSignal): Promise<void> {
    const { desktop_id: desktopId, id } = this.#exec
    let more = deferred<void>()
    this.#wake = () => more.resolve()
    this.#input.onMore = this.#wake
    signal.addEventListener('abort', this.#wake, { once: true })
    const { stdin } = await patiently(
      this.#http,
      () => this.#calls.get(desktopId, id, { signal, wake: this.#wish }),
      signal,
    )
    this.#wish = 'never'
    this.#input.begin(stdin.end)
    while (!signal.aborted) {
      more = deferred<void>()
      const size = this.#size
      this.#size = undefined
      // A size that is not taken is not worth an end.
      if (size) await this.#calls.resize(desktopId, id, size, { signal, wake: 'never' }).catch(() => undefined)
      const piece = this.#input.take()
      if (piece) await this.#writeOverHttp(piece.offset, piece.bytes, signal)
      else if (!this.#size) await more.promise
    }
  }

  async #writeOverHttp(offset: number, bytes: Uint8Array<ArrayBuffer>, signal: AbortSignal): Promise<void> {
    const { desktop_id: desktopId, id } = this.#exec
    try {
      this.#input.accept(await this.#calls.write(desktopId, id, offset, bytes, { signal, wake: 'never' }))
    } catch (error) {
      // A program that takes no more input ends soon.
      if (!(error instanceof DormouseError) || error.code !== 'exec_input_closed') throw error
      this.#input.close(error)
    }
  }

  #rest(lost: number): Promise<void> {
    const mostMs = Math.min(pause.mostMs, pause.leastMs * 2 ** (lost - 1))
    return this.#http.clock.sleep(mostMs * (0.5 + this.#http.clock.random() / 2), this.#signal)
  }
}

const noMoreInput = () => new DormouseError('the command’s input is closed')

// One client's socket to an exec: output, input, sizes and signals, until the exec has ended or the client leaves. Back-pressure
// goes both ways by offsets, so pings pass whatever else waits.
import {
  type AttachNote,
  type AttachRequest,
  attachAliveEveryMs,
  type ExecStateJson,
  type ExecStream,
  type Refusal,
  type WokeJson,
} from '@dormouse/contract'
import type { WebSocket } from 'ws'
import type { Asking } from '../guest/calls.ts'
import type { Execs } from '../guest/execs.ts'
import { pingClient } from '../streams/relay.ts'
import { SocketPause, throttle } from '../streams/throttle.ts'
import { Input } from './input.ts'
import { AttachBreach, readMessage, sendNote, sendOutput } from './messages.ts'
import { Output } from './output.ts'

/** What a client has opened. */
export interface Attachment {
  asking: Asking
  exec: ExecStateJson
  /** The id of its host when it was opened. */
  hostId: string
  offsets: Record<ExecStream, number>
  window: number | undefined
  /** How the desktop woke for it. */
  woke?: WokeJson | undefined
}

interface SessionOptions {
  execs: Execs
  /** Counts bytes that wait here; throws above a limit. */
  hold(bytes: number): Disposable
}

/** Signals that wait for the one before. */
const mostSignals = 32

export class Session {
  readonly #socket: WebSocket
  readonly #attachment: Attachment
  readonly #execs: Execs
  readonly #asking: Asking
  readonly #left = new AbortController()
  readonly #broken = Promise.withResolvers<never>()
  readonly #input: Input
  readonly #outputs: Partial<Record<ExecStream, Output>>
  #signals: number[] = []
  #size: { cols: number; rows: number } | undefined
  #isControlling = false

  constructor(socket: WebSocket, attachment: Attachment, { execs, hold }: SessionOptions) {
    this.#socket = socket
    this.#attachment = attachment
    this.#execs = execs
    const { asking, exec, offsets, window } = attachment
    this.#asking = { ...asking, signal: this.#left.signal }
    this.#broken.promise.catch(() => undefined)
    const accepted = (offset: number, closed: boolean) =>
      this.#note(closed ? { accepted: offset, closed } : { accepted: offset })
    this.#input = new Input({ execs, asking, execId: exec.id, offset: exec.stdin.end, hold, accepted })
    const streams: ExecStream[] = exec.tty ? ['stdout'] : ['stdout', 'stderr']
    const outputOf = (stream: ExecStream) =>
      new Output({
        ...{ execs, asking: this.#asking, execId: exec.id, stream, offset: offsets[stream], window, hold },
        skipped: (offset) => this.#note({ skipped: { stream, offset } }),
        send: (bytes) => sendOutput(socket, stream, bytes),
      })
    this.#outputs = Object.fromEntries(streams.map((stream) => [stream, outputOf(stream)]))
  }

  /** Resolves when everything was sent and the exec has ended; rejects with what ended it before. */
  async run(): Promise<void> {
    const { exec, offsets, woke } = this.#attachment
    this.#listen()
    this.#note({ attached: { exec, stdin: exec.stdin.end, ...offsets, ...(woke && { woke }) } })
    const beat = setInterval(() => this.#note({ alive: true }), attachAliveEveryMs)
    try {
      const ends = Promise.all(Object.values(this.#outputs).map((output) => output.run()))
      // If there are two streams, the later one has the end as well.
      const [ended] = await Promise.race([ends, this.#input.failed, this.#broken.promise])
      this.#note({ exit: ended! })
    } finally {
      clearInterval(beat)
      this.#left.abort()
      this.#input.leave()
    }
  }

  #listen(): void {
    const socket = this.#socket
    pingClient(socket)
    throttle(socket, new SocketPause(socket))
    socket.once('close', () => this.#left.abort())
    socket.on('message', (data, isBinary) => {
      try {
        const message = readMessage(data, isBinary)
        if ('stdin' in message) this.#input.add(message.stdin)
        else this.#obey(message)
      } catch (error) {
        this.#broken.reject(error)
      }
    })
    socket.resume()
  }

  #obey(request: AttachRequest): void {
    if ('eof' in request) this.#input.end()
    else if ('read' in request)
      for (const [stream, offset] of Object.entries(request.read)) this.#outputs[stream as ExecStream]?.confirm(offset)
    else if ('resize' in request) this.#size = request.resize
    else if (this.#signals.push(request.signal) > mostSignals) throw new AttachBreach('more signals than can be sent')
    void this.#control()
  }

  /** If several sizes wait, the last one counts. */
  async #control(): Promise<void> {
    if (this.#isControlling) return
    this.#isControlling = true
    const { asking, exec } = this.#attachment
    try {
      while (this.#size || this.#signals.length > 0) {
        const [size, signal] = [this.#size, this.#signals.shift()]
        this.#size = undefined
        if (size) await this.#execs.resize(asking, exec.id, size)
        if (signal !== undefined) await this.#execs.signal(asking, exec.id, signal)
      }
    } catch (error) {
      this.#broken.reject(error as Refusal)
    } finally {
      this.#isControlling = false
    }
  }

  #note(note: AttachNote): void {
    sendNote(this.#socket, note)
  }
}

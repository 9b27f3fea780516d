// One side of a link: calls and events over one open WebSocket, both sides alike.
// Knows neither who is at the other end nor what a payload means. It never retries: a lost link settles every call.
import { randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import type { RawData, WebSocket } from 'ws'
import { asRefusal, CallFailed, CallRefused, CallTimeout, FrameError, LinkLost } from './errors.ts'
import { decodeFrame, type Frame, type Saying } from './frames.ts'
import { type Heartbeat, heartbeatOf, watchHeartbeat } from './heartbeat.ts'
import { Outbox } from './outbox.ts'
import type { Pace } from './pace.ts'
import { closeSocket, defaultMaxFrameBytes } from './sockets.ts'

/** Answers one call. What it throws crosses as a refusal where it says `refusal: true`, else as an incident. */
export type Handler = (payload: unknown, context: HandlerContext) => Promise<unknown>

export interface HandlerContext {
  /** Aborts when the caller gives up and when the link is lost (then its reason is a LinkLost). */
  signal: AbortSignal
  requestId?: string | undefined
  peer: Peer
}

/** The part of a pino logger that a link uses. */
export interface LinkLog {
  debug(fields: object, message: string): void
  warn(fields: object, message: string): void
  error(fields: object, message: string): void
}

export interface PeerOptions extends Partial<Heartbeat> {
  handlers?: Readonly<Record<string, Handler>>
  maxFrameBytes?: number
  /** Calls of the other side that may be under way here at once. */
  maxInFlight?: number
  /** Unsent bytes of small frames at which the link closes rather than grow. */
  maxBufferedBytes?: number
  /** How much of the thread the other side may take; it is read more slowly beyond. May be shared by several links. */
  pace?: Pace | undefined
  log?: LinkLog
}

export interface CallOptions {
  /** 30 s by default; Infinity for none. */
  timeoutMs?: number
  signal?: AbortSignal
  requestId?: string
}

export interface PeerEvents {
  event: [name: string, payload: unknown]
  close: [reason: string]
}

interface Waiting {
  resolve(payload: unknown): void
  reject(error: unknown): void
}

type CallFrame = Extract<Frame, { type: 'call' }>
type Answer = Extract<Saying, { to: number }>

const defaults = { maxInFlight: 256, maxBufferedBytes: 16 * 1024 * 1024, callTimeoutMs: 30_000 }

export class Peer extends EventEmitter<PeerEvents> {
  readonly #socket: WebSocket
  readonly #handlers: Readonly<Record<string, Handler>>
  readonly #limits: { maxFrameBytes: number; maxInFlight: number }
  readonly #outbox: Outbox
  readonly #log: LinkLog | undefined
  readonly #pace: Pace | undefined
  readonly #waiting = new Map<number, Waiting>()
  readonly #running = new Map<number, AbortController>()
  #received = 0
  #lost: string | undefined
  #pause: NodeJS.Timeout | undefined
  #slowed = false

  /** Takes over an open socket. Listen for events in the same tick. */
  constructor(socket: WebSocket, options: PeerOptions = {}) {
    super()
    if (socket.readyState !== socket.OPEN) throw new TypeError('a Peer needs an open WebSocket')
    this.#socket = socket
    this.#handlers = options.handlers ?? {}
    const { maxFrameBytes = defaultMaxFrameBytes, maxInFlight = defaults.maxInFlight } = options
    this.#limits = { maxFrameBytes, maxInFlight }
    const maxBufferedBytes = options.maxBufferedBytes ?? defaults.maxBufferedBytes
    this.#outbox = new Outbox(socket, { maxFrameBytes, maxBufferedBytes })
    this.#log = options.log
    this.#pace = options.pace
    this.#listen(heartbeatOf(options))
    this.#rest(0)
  }

  get closed(): boolean {
    return this.#lost !== undefined
  }

  /**
   * Asks the other side and waits for its answer. Rejects with CallRefused, CallFailed, CallTimeout, LinkLost,
   * FrameTooLarge, or the signal's reason; never asks twice.
   */
  async call(name: string, payload: unknown, options: CallOptions = {}): Promise<unknown> {
    const { timeoutMs = defaults.callTimeoutMs, signal, requestId } = options
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    let n = 0
    const sent = (number: number) => {
      n = number
      this.#waiting.set(n, { resolve, reject })
    }
    const takeBack = this.#sayInTurn({ type: 'call', name, payload, requestId }, sent, reject)
    const giveUp = (error: unknown) => (takeBack() ? reject(error) : this.#giveUp(n, error))

    const abandon = () => giveUp(signal?.reason)
    signal?.addEventListener('abort', abandon, { once: true })
    const giveUpLate = () => giveUp(new CallTimeout(name, timeoutMs))
    const timer = timeoutMs === Infinity ? undefined : setTimeout(giveUpLate, timeoutMs)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abandon)
    }
  }

  /** Tells without waiting; events arrive in the order they were told. Throws LinkLost or FrameTooLarge. */
  emitEvent(name: string, payload: unknown): void {
    this.#say({ type: 'event', name, payload })
  }

  /** Ends the link at once for this side; resolves when the socket is gone, which takes a second at most. */
  close(code = 1000, reason = ''): Promise<void> {
    this.#lose(reason || 'closed by this side')
    return closeSocket(this.#socket, code, reason)
  }

  #listen(beat: Heartbeat): void {
    const socket = this.#socket
    socket.on('message', (data, isBinary) => this.#hear(data, isBinary))
    socket.on('error', (error) => this.#lose(error.message))
    socket.on('close', (code, reason) => this.#lose(reason.toString() || `the socket closed with ${code}`))
    watchHeartbeat(socket, beat, () => {
      this.#lose(`no sign of life within ${beat.pingTimeoutMs} ms`)
      socket.terminate()
    })
  }

  #say(saying: Saying): void {
    this.#requireRoom()
    this.#outbox.say(saying)
  }

  #sayInTurn(...saying: Parameters<Outbox['sayInTurn']>): () => boolean {
    this.#requireRoom()
    return this.#outbox.sayInTurn(...saying)
  }

  #requireRoom(): void {
    if (this.#lost === undefined && this.#outbox.full) this.#end(1013, 'the other side does not keep up')
    if (this.#lost !== undefined) throw new LinkLost(false, this.#lost)
  }

  /** For what the other side need not hear once the link is lost, since the loss has told it. */
  #sayIfUp(saying: Saying): void {
    try {
      this.#say(saying)
    } catch (error) {
      if (!(error instanceof LinkLost)) throw error
    }
  }

  #hear(data: RawData, isBinary: boolean): void {
    if (this.#lost !== undefined) return
    const began = performance.now()
    try {
      this.#obey(this.#read(data, isBinary))
    } catch (error) {
      if (error instanceof FrameError) this.#end(1002, error.message)
      else this.#fail(error)
    }
    this.#rest(performance.now() - began)
  }

  /** Reads nothing for a while where what was said has cost too much: others talk to this process, too. */
  #rest(spentMs: number): void {
    const restMs = this.#pace?.spend(spentMs) ?? 0
    if (restMs === 0 || this.#lost !== undefined) return
    if (!this.#slowed) this.#log?.warn({ restMs }, 'the other side says more than its share; it is read more slowly')
    this.#slowed = true
    clearTimeout(this.#pause)
    this.#socket.pause()
    this.#pause = setTimeout(() => this.#socket.resume(), restMs)
  }

  #read(data: RawData, isBinary: boolean): Frame {
    if (isBinary || !Buffer.isBuffer(data)) throw new FrameError('a frame must be text')
    if (data.length > this.#limits.maxFrameBytes) throw new FrameError('a frame is over the size limit')
    const frame = decodeFrame(data.toString())
    if (frame.n !== this.#received + 1)
      throw new FrameError(`frame ${frame.n} came where ${this.#received + 1} was due`)
    this.#received = frame.n
    if ('to' in frame && frame.type !== 'cancel' && frame.to > this.#outbox.sent) {
      throw new FrameError(`a ${frame.type} frame answers a call that was never made`)
    }
    return frame
  }

  #obey(frame: Frame): void {
    if (frame.type === 'call') this.#serve(frame).catch((error: unknown) => this.#fail(error))
    else if (frame.type === 'event') this.#tell(frame.name, frame.payload)
    else if (frame.type === 'cancel') this.#running.get(frame.to)?.abort()
    else if (frame.type === 'reply') this.#settle(frame.to)?.resolve(frame.payload)
    else if (frame.type === 'refused') this.#settle(frame.to)?.reject(new CallRefused(frame.code, frame.detail))
    else this.#settle(frame.to)?.reject(new CallFailed(frame.incident))
  }

  /** Takes the waiting call out; none is there where its caller has given up. */
  #settle(n: number): Waiting | undefined {
    const waiting = this.#waiting.get(n)
    this.#waiting.delete(n)
    return waiting
  }

  #giveUp(n: number, error: unknown): void {
    const waiting = this.#settle(n)
    if (!waiting) return
    waiting.reject(error)
    this.#sayIfUp({ type: 'cancel', to: n })
  }

  #tell(name: string, payload: unknown): void {
    try {
      this.emit('event', name, payload)
    } catch (err) {
      this.#log?.error({ err, event: name }, 'a listener failed on an event')
    }
  }

  async #serve(frame: CallFrame): Promise<void> {
    const handler = Object.hasOwn(this.#handlers, frame.name) ? this.#handlers[frame.name] : undefined
    if (!handler) return this.#refuse(frame, 'unknown_call', `this side knows no call "${frame.name}"`)
    if (this.#running.size >= this.#limits.maxInFlight) {
      return this.#refuse(frame, 'too_many_calls', `${this.#running.size} calls are already under way here`)
    }
    const abort = new AbortController()
    this.#running.set(frame.n, abort)
    const answer = await this.#run(handler, frame, abort.signal)
    await this.#answer(frame, answer, abort.signal)
    this.#running.delete(frame.n)
  }

  async #run(handler: Handler, frame: CallFrame, signal: AbortSignal): Promise<Answer> {
    try {
      const payload = await handler(frame.payload, { signal, requestId: frame.requestId, peer: this })
      return { type: 'reply', to: frame.n, payload }
    } catch (error) {
      const refusal = asRefusal(error)
      if (refusal) return { type: 'refused', to: frame.n, ...refusal }
      if (signal.aborted && (error === signal.reason || (error as Error | undefined)?.name === 'AbortError')) {
        return { type: 'failed', to: frame.n, incident: 'cancelled' }
      }
      return this.#incident(frame, error)
    }
  }

  /** A bug of ours on what the other side said costs this link, and no more. */
  #fail(err: unknown): void {
    this.#log?.error({ err }, 'a link failed')
    this.#end(1011, 'this side failed')
  }

  #refuse(frame: CallFrame, code: string, detail: string): void {
    this.#sayIfUp({ type: 'refused', to: frame.n, code, detail })
  }

  /** Resolves when the answer has left, or nobody waits for it any more. */
  async #answer(frame: CallFrame, answer: Answer, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const over = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    try {
      const takeBack = this.#sayInTurn(
        answer,
        () => over.resolve(),
        () => over.resolve(),
      )
      await over.promise
      takeBack()
    } catch (error) {
      if (error instanceof LinkLost) return
      // The answer cannot be sent as it is: too large, or not JSON.
      this.#sayIfUp(this.#incident(frame, error))
    }
  }

  /** Logs the bug whole, and makes the answer that tells its name only. */
  #incident(frame: CallFrame, err: unknown): Answer {
    const incident = randomUUID()
    this.#log?.error({ err, incident, call: frame.name, requestId: frame.requestId }, 'a call failed')
    return { type: 'failed', to: frame.n, incident }
  }

  /** Ends the link for a cause of our own and says so to the other side. */
  #end(code: number, reason: string): void {
    this.#lose(reason)
    void closeSocket(this.#socket, code, reason)
  }

  #lose(reason: string): void {
    if (this.#lost !== undefined) return
    this.#lost = reason
    clearTimeout(this.#pause)
    // A goodbye takes its way through a socket that is read.
    this.#socket.resume()
    this.#log?.debug({ reason }, 'link closed')
    const lost = new LinkLost(true, reason)
    for (const { reject } of this.#waiting.values()) reject(lost)
    this.#waiting.clear()
    this.#outbox.lose(reason)
    for (const abort of this.#running.values()) abort.abort(lost)
    this.emit('close', reason)
  }
}

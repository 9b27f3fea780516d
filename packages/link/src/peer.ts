// One side of a link: calls and events over an open WebSocket, the same on both sides. Knows neither who the other side is
// nor what a payload means. It never retries: when the link is lost, every call settles.
import { EventEmitter } from 'node:events'
import type { RawData, WebSocket } from 'ws'
import { CallFailed, CallRefused, CallTimeout, FrameError, LinkLost } from './errors.ts'
import { decodeFrame, type Frame, type Message } from './frames.ts'
import { type Heartbeat, heartbeatOf, watchHeartbeat } from './heartbeat.ts'
import type { LinkLog } from './link-log.ts'
import { Outbox } from './outbox.ts'
import type { Pace } from './pace.ts'
import { type CallFrame, ServedCalls } from './served-calls.ts'
import { closeSocket, defaultMaxFrameBytes } from './sockets.ts'

/** Handles one call. An error with `refusal: true` is sent back as a refusal, any other as an incident. */
export type Handler = (payload: unknown, context: HandlerContext) => Promise<unknown>

export interface HandlerContext {
  /** Aborts when the caller gives up, and when the link is lost (then its reason is a LinkLost). */
  signal: AbortSignal
  requestId?: string | undefined
  /** The caller's span, in the form of W3C Trace Context. Not validated. */
  traceparent?: string | undefined
  peer: Peer
}

export interface PeerOptions extends Partial<Heartbeat> {
  handlers?: Readonly<Record<string, Handler>>
  maxFrameBytes?: number
  /** How many calls of the other side may be in flight here. */
  maxInFlight?: number
  /** The link closes when more than these bytes of small frames are unsent. */
  maxBufferedBytes?: number
  /** Limits the other side's share of our thread: above it, we read more slowly. Several links may share one. */
  pace?: Pace | undefined
  log?: LinkLog
}

export interface CallOptions {
  /** 30 s by default; Infinity for none. */
  timeoutMs?: number
  signal?: AbortSignal
  requestId?: string
  /** The caller's span, in the form of W3C Trace Context. */
  traceparent?: string
}

export interface PeerEvents {
  event: [name: string, payload: unknown]
  close: [reason: string]
}

interface PendingCall {
  resolve(payload: unknown): void
  reject(error: unknown): void
}

const defaults = { maxInFlight: 256, maxBufferedBytes: 16 * 1024 * 1024, callTimeoutMs: 30_000 }

export class Peer extends EventEmitter<PeerEvents> {
  readonly #socket: WebSocket
  readonly #handlers: Readonly<Record<string, Handler>>
  readonly #maxFrameBytes: number
  readonly #outbox: Outbox
  readonly #log: LinkLog | undefined
  readonly #pace: Pace | undefined
  readonly #pending = new Map<number, PendingCall>()
  readonly #served: ServedCalls
  #received = 0
  #lost: string | undefined
  #resumeTimer: NodeJS.Timeout | undefined
  #slowed = false

  /** Takes over an open socket. Add listeners in the same tick. */
  constructor(socket: WebSocket, options: PeerOptions = {}) {
    super()
    if (socket.readyState !== socket.OPEN) throw new TypeError('a Peer needs an open WebSocket')
    this.#socket = socket
    this.#handlers = options.handlers ?? {}
    const { maxFrameBytes = defaultMaxFrameBytes, maxInFlight = defaults.maxInFlight } = options
    this.#maxFrameBytes = maxFrameBytes
    const maxBufferedBytes = options.maxBufferedBytes ?? defaults.maxBufferedBytes
    this.#outbox = new Outbox(socket, { maxFrameBytes, maxBufferedBytes })
    this.#log = options.log
    this.#pace = options.pace
    this.#served = new ServedCalls({
      maxInFlight,
      handlerOf: (frame) => this.#handlerOf(frame),
      sendInTurn: (...reply) => this.#sendInTurn(...reply),
      sendIfUp: (reply) => this.#sendIfUp(reply),
      log: options.log,
    })
    this.#listen(heartbeatOf(options))
    this.#slowDown(0)
  }

  get closed(): boolean {
    return this.#lost !== undefined
  }

  /**
   * Calls the other side and waits for its reply. Rejects with CallRefused, CallFailed, CallTimeout, LinkLost,
   * FrameTooLarge, or the signal's reason. Never retries.
   */
  async call(name: string, payload: unknown, options: CallOptions = {}): Promise<unknown> {
    const { timeoutMs = defaults.callTimeoutMs, signal, requestId, traceparent } = options
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<unknown>()
    let n = 0
    const sent = (number: number) => {
      n = number
      this.#pending.set(n, { resolve, reject })
    }
    const withdraw = this.#sendInTurn({ type: 'call', name, payload, requestId, traceparent }, sent, reject)
    const giveUp = (error: unknown) => (withdraw() ? reject(error) : this.#cancel(n, error))

    const onAbort = () => giveUp(signal?.reason)
    signal?.addEventListener('abort', onAbort, { once: true })
    const onTimeout = () => giveUp(new CallTimeout(name, timeoutMs))
    const timer = timeoutMs === Infinity ? undefined : setTimeout(onTimeout, timeoutMs)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    }
  }

  /** Sends an event without waiting. Events arrive in their order. Throws LinkLost or FrameTooLarge. */
  emitEvent(name: string, payload: unknown): void {
    this.#send({ type: 'event', name, payload })
  }

  /** Ends the link at once for this side. Resolves when the socket is closed, within a second. */
  close(code = 1000, reason = ''): Promise<void> {
    this.#lose(reason || 'closed by this side')
    return closeSocket(this.#socket, code, reason)
  }

  #listen(beat: Heartbeat): void {
    const socket = this.#socket
    socket.on('message', (data, isBinary) => this.#onMessage(data, isBinary))
    socket.on('error', (error) => this.#lose(error.message))
    socket.on('close', (code, reason) => this.#lose(reason.toString() || `the socket closed with code ${code}`))
    watchHeartbeat(socket, beat, () => {
      this.#lose(`no sign of life within ${beat.pingTimeoutMs} ms`)
      socket.terminate()
    })
  }

  #send(message: Message): void {
    this.#requireCapacity()
    this.#outbox.send(message)
  }

  #sendInTurn(...message: Parameters<Outbox['sendInTurn']>): () => boolean {
    this.#requireCapacity()
    return this.#outbox.sendInTurn(...message)
  }

  #requireCapacity(): void {
    if (this.#lost === undefined && this.#outbox.full) this.#end(1013, 'the other side does not keep up')
    if (this.#lost !== undefined) throw new LinkLost(false, this.#lost)
  }

  /** For messages that a lost link makes unnecessary. */
  #sendIfUp(message: Message): void {
    try {
      this.#send(message)
    } catch (error) {
      if (!(error instanceof LinkLost)) throw error
    }
  }

  #onMessage(data: RawData, isBinary: boolean): void {
    if (this.#lost !== undefined) return
    const began = performance.now()
    try {
      this.#onFrame(this.#read(data, isBinary))
    } catch (error) {
      if (error instanceof FrameError) this.#end(1002, error.message)
      else this.#fail(error)
    }
    this.#slowDown(performance.now() - began)
  }

  /** Stops reading for a while if the other side has used more than its share of the thread. */
  #slowDown(spentMs: number): void {
    const pauseMs = this.#pace?.spend(spentMs) ?? 0
    if (pauseMs === 0 || this.#lost !== undefined) return
    if (!this.#slowed)
      this.#log?.warn({ restMs: pauseMs }, 'the other side sends more than its share; it is read more slowly')
    this.#slowed = true
    clearTimeout(this.#resumeTimer)
    this.#socket.pause()
    this.#resumeTimer = setTimeout(() => this.#socket.resume(), pauseMs)
  }

  #read(data: RawData, isBinary: boolean): Frame {
    if (isBinary || !Buffer.isBuffer(data)) throw new FrameError('a frame must be text')
    if (data.length > this.#maxFrameBytes) throw new FrameError('a frame is over the size limit')
    const frame = decodeFrame(data.toString())
    if (frame.n !== this.#received + 1)
      throw new FrameError(`frame ${frame.n} came instead of frame ${this.#received + 1}`)
    this.#received = frame.n
    if ('to' in frame && frame.type !== 'cancel' && frame.to > this.#outbox.sent) {
      throw new FrameError(`a ${frame.type} frame answers a call that was never made`)
    }
    return frame
  }

  #onFrame(frame: Frame): void {
    if (frame.type === 'call') this.#served.serve(frame).catch((error: unknown) => this.#fail(error))
    else if (frame.type === 'event') this.#onEvent(frame.name, frame.payload)
    else if (frame.type === 'cancel') this.#served.cancel(frame.to)
    else if (frame.type === 'reply') this.#settle(frame.to)?.resolve(frame.payload)
    else if (frame.type === 'refused') this.#settle(frame.to)?.reject(new CallRefused(frame.code, frame.detail))
    else this.#settle(frame.to)?.reject(new CallFailed(frame.incident))
  }

  /** Takes the pending call out. There is none if its caller has given up. */
  #settle(n: number): PendingCall | undefined {
    const pending = this.#pending.get(n)
    this.#pending.delete(n)
    return pending
  }

  #cancel(n: number, error: unknown): void {
    const pending = this.#settle(n)
    if (!pending) return
    pending.reject(error)
    this.#sendIfUp({ type: 'cancel', to: n })
  }

  #onEvent(name: string, payload: unknown): void {
    try {
      this.emit('event', name, payload)
    } catch (err) {
      this.#log?.error({ err, event: name }, 'a listener failed on an event')
    }
  }

  #handlerOf({ name, payload, requestId, traceparent }: CallFrame) {
    const handler = Object.hasOwn(this.#handlers, name) ? this.#handlers[name] : undefined
    return handler && ((signal: AbortSignal) => handler(payload, { signal, requestId, traceparent, peer: this }))
  }

  /** A bug of ours in handling a frame ends this link, and nothing else. */
  #fail(err: unknown): void {
    this.#log?.error({ err }, 'a link failed')
    this.#end(1011, 'this side failed')
  }

  /** Ends the link for a reason of ours, and sends that reason. */
  #end(code: number, reason: string): void {
    this.#lose(reason)
    void closeSocket(this.#socket, code, reason)
  }

  #lose(reason: string): void {
    if (this.#lost !== undefined) return
    this.#lost = reason
    clearTimeout(this.#resumeTimer)
    // A paused socket cannot receive the other side's close frame.
    this.#socket.resume()
    this.#log?.debug({ reason }, 'link closed')
    const lost = new LinkLost(true, reason)
    for (const { reject } of this.#pending.values()) reject(lost)
    this.#pending.clear()
    this.#outbox.lose(reason)
    this.#served.cancelAll(lost)
    this.emit('close', reason)
  }
}

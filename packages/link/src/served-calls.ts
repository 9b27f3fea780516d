// Runs the calls of the other side, each until its reply is sent. Knows no socket and no payload.
import { randomUUID } from 'node:crypto'
import { asRefusal, LinkLost } from './errors.ts'
import type { Frame, Message } from './frames.ts'
import type { LinkLog } from './link-log.ts'

export type CallFrame = Extract<Frame, { type: 'call' }>
type Reply = Extract<Message, { to: number }>

export interface ServedCallsOptions {
  maxInFlight: number
  /** What runs the call, or undefined if no handler has its name. */
  handlerOf(frame: CallFrame): ((signal: AbortSignal) => Promise<unknown>) | undefined
  /** Sends a reply in its turn. Returns a function that withdraws it. */
  sendInTurn(reply: Reply, onSent: () => void, onLost: () => void): () => boolean
  /** Sends a reply at once, unless the link is lost. */
  sendIfUp(reply: Reply): void
  log: LinkLog | undefined
}

export class ServedCalls {
  readonly #options: ServedCallsOptions
  readonly #running = new Map<number, AbortController>()

  constructor(options: ServedCallsOptions) {
    this.#options = options
  }

  /** Resolves when the reply is sent, or its caller no longer waits. Rejects only on a bug of ours. */
  async serve(frame: CallFrame): Promise<void> {
    const handler = this.#options.handlerOf(frame)
    if (!handler) return this.#refuse(frame, 'unknown_call', `this side has no call "${frame.name}"`)
    if (this.#running.size >= this.#options.maxInFlight) {
      return this.#refuse(frame, 'too_many_calls', `${this.#running.size} calls are already in flight here`)
    }
    const abort = new AbortController()
    this.#running.set(frame.n, abort)
    const reply = await this.#run(handler, frame, abort.signal)
    await this.#send(frame, reply, abort.signal)
    this.#running.delete(frame.n)
  }

  /** The caller of frame `n` no longer waits. */
  cancel(n: number): void {
    this.#running.get(n)?.abort()
  }

  /** The link is lost. */
  cancelAll(lost: LinkLost): void {
    for (const abort of this.#running.values()) abort.abort(lost)
  }

  async #run(
    handler: (signal: AbortSignal) => Promise<unknown>,
    frame: CallFrame,
    signal: AbortSignal,
  ): Promise<Reply> {
    try {
      return { type: 'reply', to: frame.n, payload: await handler(signal) }
    } catch (error) {
      const refusal = asRefusal(error)
      if (refusal) return { type: 'refused', to: frame.n, ...refusal }
      if (signal.aborted && (error === signal.reason || (error as Error | undefined)?.name === 'AbortError')) {
        return { type: 'failed', to: frame.n, incident: 'cancelled' }
      }
      return this.#incident(frame, error)
    }
  }

  async #send(frame: CallFrame, reply: Reply, signal: AbortSignal): Promise<void> {
    if (signal.aborted) return
    const over = Promise.withResolvers<void>()
    signal.addEventListener('abort', () => over.resolve(), { once: true })
    try {
      const withdraw = this.#options.sendInTurn(reply, over.resolve, over.resolve)
      await over.promise
      withdraw()
    } catch (error) {
      if (error instanceof LinkLost) return
      // This reply cannot be sent: it is too large, or not JSON.
      this.#options.sendIfUp(this.#incident(frame, error))
    }
  }

  #refuse(frame: CallFrame, code: string, detail: string): void {
    this.#options.sendIfUp({ type: 'refused', to: frame.n, code, detail })
  }

  /** Logs the error, and returns a reply that names only the incident. */
  #incident(frame: CallFrame, err: unknown): Reply {
    const incident = randomUUID()
    this.#options.log?.error({ err, incident, call: frame.name, requestId: frame.requestId }, 'a call failed')
    return { type: 'failed', to: frame.n, incident }
  }
}

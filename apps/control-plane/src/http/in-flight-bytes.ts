// Limits the bytes that this process buffers for slow clients: incomplete request bodies and unread responses. There is a
// limit per address, per credential and in total. At the total limit, the client with the most bytes is evicted.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import type { App } from './app.ts'

export interface ByteLimits {
  perAddress: number
  perCredential: number
  total: number
}

/** The client that a request's bytes count for. */
export interface Owner {
  name: string
  isAuthenticated: boolean
}

interface Account {
  held: number
  /** Bytes by request, the oldest first. */
  requests: Map<IncomingMessage, number>
}

/** Shorter responses are not counted: the number of connections bounds them. */
const minCountedBytes = 16 * 1024

export class InFlightBytes {
  readonly #limits: ByteLimits
  readonly #ownerOf: (request: IncomingMessage) => Owner
  readonly #evict: (socket: Socket) => void
  readonly #accounts = new Map<string, Account>()
  readonly #owners = new WeakMap<IncomingMessage, string>()
  #held = 0

  constructor(options: {
    limits: ByteLimits
    ownerOf: (request: IncomingMessage) => Owner
    evict: (socket: Socket) => void
  }) {
    this.#limits = options.limits
    this.#ownerOf = options.ownerOf
    this.#evict = options.evict
  }

  /** Bytes in flight. */
  get count(): number {
    return this.#held
  }

  /** Counts the responses of every scope that is registered after this. */
  watch(app: App): void {
    app.addHook('onSend', (request, _reply, payload, done) => {
      const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0
      if (bytes >= minCountedBytes) this.hold(request.raw, bytes)
      done()
    })
  }

  /** Counts bytes before they are buffered, until the request ends. Throws `rate_limited` above a limit. */
  hold(request: IncomingMessage, bytes: number): void {
    const { name, isAuthenticated } = this.#ownerOf(request)
    const account = this.#accounts.get(name) ?? { held: 0, requests: new Map() }
    const limit = isAuthenticated ? this.#limits.perCredential : this.#limits.perAddress
    if (account.held + bytes > limit) throw tooMuch(isAuthenticated ? 'with this credential' : 'from this address')
    while (this.#held + bytes > this.#limits.total) this.#makeRoom(account.held + bytes)
    this.#accounts.set(name, account)
    this.#owners.set(request, name)
    this.#held += bytes
    account.held += bytes
    account.requests.set(request, (account.requests.get(request) ?? 0) + bytes)
  }

  /** Counts bytes that a WebSocket holds for a while, until the answer is disposed of or its connection closes. Throws as `hold`. */
  holdFor(request: IncomingMessage, bytes: number): Disposable {
    this.hold(request, bytes)
    return { [Symbol.dispose]: () => this.#giveBack(request, bytes) }
  }

  /** Releases the bytes of a request that has ended. */
  release(request: IncomingMessage): void {
    this.#giveBack(request, Number.POSITIVE_INFINITY)
  }

  #giveBack(request: IncomingMessage, most: number): void {
    const name = this.#owners.get(request)
    const account = name === undefined ? undefined : this.#accounts.get(name)
    const held = account?.requests.get(request)
    if (!account || held === undefined) return
    const bytes = Math.min(held, most)
    account.held -= bytes
    this.#held -= bytes
    if (bytes < held) account.requests.set(request, held - bytes)
    else account.requests.delete(request)
    if (account.requests.size === 0) this.#accounts.delete(name!)
  }

  /** Evicts the oldest request of the client with the most bytes, unless that client requests more. */
  #makeRoom(wanted: number): void {
    const most = [...this.#accounts.values()].reduce((a, b) => (b.held > a.held ? b : a), {
      held: 0,
      requests: new Map(),
    })
    const [oldest] = most.requests.keys()
    if (most.held <= wanted || !oldest) throw tooMuch('in total')
    this.release(oldest)
    this.#evict(oldest.socket)
  }
}

function tooMuch(where: string): Refusal {
  const detail = `too many bytes in flight ${where}; finish sending bodies, and read responses as they arrive`
  return new Refusal('rate_limited', detail, { hangUp: true })
}

// How many bytes this process holds for slow callers: bodies that are not whole yet, answers that are not read yet. Bounded
// for one address, for one credential, and in all. Where all of it is used up, whoever holds most gives way.
import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import { Refusal } from '@dormouse/contract'
import type { App } from './app.ts'

export interface ByteLimits {
  perAddress: number
  perCredential: number
  inAll: number
}

export interface Payer {
  name: string
  isStranger: boolean
}

interface Account {
  held: number
  /** What each request holds, the oldest first. */
  bills: Map<IncomingMessage, number>
}

/** An answer that is shorter is not counted: connections are. */
const countedFrom = 16 * 1024

export class InFlightBytes {
  readonly #limits: ByteLimits
  readonly #payerOf: (request: IncomingMessage) => Payer
  readonly #turnAway: (socket: Socket) => void
  readonly #accounts = new Map<string, Account>()
  readonly #payers = new WeakMap<IncomingMessage, string>()
  #held = 0

  constructor(options: {
    limits: ByteLimits
    payerOf: (request: IncomingMessage) => Payer
    turnAway: (socket: Socket) => void
  }) {
    this.#limits = options.limits
    this.#payerOf = options.payerOf
    this.#turnAway = options.turnAway
  }

  /** How many are held. */
  get count(): number {
    return this.#held
  }

  /** Counts the answers of every scope that is registered after this. */
  watch(app: App): void {
    app.addHook('onSend', (request, _reply, payload, done) => {
      const bytes = typeof payload === 'string' || Buffer.isBuffer(payload) ? payload.length : 0
      if (bytes >= countedFrom) this.hold(request.raw, bytes)
      done()
    })
  }

  /** Counts bytes before they are kept, until the request is over. Throws `rate_limited` where they are too many. */
  hold(request: IncomingMessage, bytes: number): void {
    const { name, isStranger } = this.#payerOf(request)
    const account = this.#accounts.get(name) ?? { held: 0, bills: new Map() }
    const limit = isStranger ? this.#limits.perAddress : this.#limits.perCredential
    if (account.held + bytes > limit) throw tooMuch(isStranger ? 'from this address' : 'with this credential')
    while (this.#held + bytes > this.#limits.inAll) this.#makeRoom(account.held + bytes)
    this.#accounts.set(name, account)
    this.#payers.set(request, name)
    this.#held += bytes
    account.held += bytes
    account.bills.set(request, (account.bills.get(request) ?? 0) + bytes)
  }

  /** The request is over: it holds nothing any more. */
  release(request: IncomingMessage): void {
    const name = this.#payers.get(request)
    const account = name === undefined ? undefined : this.#accounts.get(name)
    const bytes = account?.bills.get(request)
    if (!account || bytes === undefined) return
    account.bills.delete(request)
    account.held -= bytes
    this.#held -= bytes
    if (account.bills.size === 0) this.#accounts.delete(name!)
  }

  /** The oldest of whoever holds most gives way, unless it is the one who asks for more. */
  #makeRoom(wished: number): void {
    const most = [...this.#accounts.values()].reduce((a, b) => (b.held > a.held ? b : a), { held: 0, bills: new Map() })
    const [oldest] = most.bills.keys()
    if (most.held <= wished || !oldest) throw tooMuch('in all')
    this.release(oldest)
    this.#turnAway(oldest.socket)
  }
}

function tooMuch(where: string): Refusal {
  const detail = `too many bytes are under way ${where}: send bodies to their end, and read answers as they come`
  return new Refusal('rate_limited', detail, { hangUp: true })
}

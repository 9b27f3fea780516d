// Sockets that are not authenticated yet: each gets a challenge and must answer it before anything else. Limited in number,
// bytes and time. Knows neither keys nor hosts.
import type { IncomingMessage } from 'node:http'
import { linkAccepted, linkChallenge, linkProof, Refusal } from '@dormouse/contract'
import { type Handshake, shakeHands, UpgradeRefusal } from '@dormouse/link'
import type { WebSocket } from 'ws'
import type { z } from 'zod'
import { isDatabaseUnavailable } from '../db/pool.ts'

export interface Proving<Host> {
  /** A new random nonce. */
  challenge(): string
  /**
   * Returns the host that signed it; throws a refusal otherwise. `beforeLookup` is called before anything is looked up, unless a
   * recently authenticated host signed it. An error that `beforeLookup` throws ends the attempt.
   */
  bySignature(nonce: string, hostId: string, signature: string, beforeLookup: () => void): Promise<Host>
}

/** Counts clients that are not authenticated yet. */
export interface Strangers {
  addressOf(request: IncomingMessage): string
  /** Throws a refusal if the address is above its limit. */
  count(request: IncomingMessage): void
  /** Undoes the count: the client is a host. */
  forgive(request: IncomingMessage): void
  /** The socket belongs to a host: it no longer counts for its address. */
  prove(request: IncomingMessage, hostId: string): void
}

/** Limit for this replica. An agent needs one round trip, so the oldest socket is the least likely to be an agent's. */
const maxPending = 256
const limits = { timeoutMs: 5_000, maxBytes: 4_096 }

export class Handshakes<Host> {
  readonly #proving: Proving<Host>
  readonly #strangers: Strangers
  /** The address of each socket, oldest first. */
  readonly #waiting = new Map<WebSocket, string>()

  constructor(proving: Proving<Host>, strangers: Strangers) {
    this.#proving = proving
    this.#strangers = strangers
  }

  /** Sockets that are not authenticated yet. */
  get count(): number {
    return this.#waiting.size
  }

  /** Authenticates the host at the other end. Otherwise rejects with DialRefused and closes the socket. */
  async authenticate(socket: WebSocket, request: IncomingMessage): Promise<Host> {
    this.#makeRoom()
    this.#waiting.set(socket, this.#strangers.addressOf(request))
    try {
      return await shakeHands(socket, { ...limits, raw: request.socket }, (hands) => this.#challenge(hands, request))
    } finally {
      this.#waiting.delete(socket)
    }
  }

  /** Closes the oldest socket of the address with the most, so that silent clients cannot keep hosts out. */
  #makeRoom(): void {
    if (this.#waiting.size < maxPending) return
    const byAddress = Map.groupBy(this.#waiting.keys(), (socket) => this.#waiting.get(socket))
    const [oldest] = [...byAddress.values()].reduce((most, some) => (some.length > most.length ? some : most))
    if (oldest) this.#waiting.delete(oldest)
    oldest?.terminate()
  }

  async #challenge(hands: Handshake, request: IncomingMessage): Promise<Host | UpgradeRefusal> {
    const nonce = this.#proving.challenge()
    hands.say(JSON.stringify(linkChallenge.parse({ nonce })))
    const proof = linkProof.safeParse(parsed(await hands.hear()))
    if (!proof.success) return new UpgradeRefusal(400, 'not a valid proof of a host')
    try {
      const host = await this.#prove(nonce, proof.data, request)
      hands.say(JSON.stringify(linkAccepted.parse({ accepted: true })))
      return host
    } catch (error) {
      return asUpgradeRefusal(error)
    }
  }

  async #prove(nonce: string, { hostId, signature }: z.infer<typeof linkProof>, request: IncomingMessage) {
    let isUnknown = false
    const host = await this.#proving.bySignature(nonce, hostId, signature, () => {
      isUnknown = true
      this.#strangers.count(request)
    })
    if (isUnknown) this.#strangers.forgive(request)
    return host
  }
}

/** The refusal of an upgrade; rethrows a bug. */
export function asUpgradeRefusal(error: unknown): UpgradeRefusal {
  if (error instanceof Refusal) return new UpgradeRefusal(error.status, error.detail, {}, error.code)
  if (!isDatabaseUnavailable(error)) throw error
  const headers = { 'retry-after': '2' }
  return new UpgradeRefusal(503, 'the database does not respond; try again', headers, 'database_unavailable')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

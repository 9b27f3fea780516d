// Sockets that want to become links: each is given a challenge and proves who it is, before anything else is heard.
// Bounded in number, bytes and time. Knows neither keys nor hosts.
import type { IncomingMessage } from 'node:http'
import { linkAccepted, linkChallenge, linkProof, Refusal } from '@dormouse/contract'
import { type Handshake, shakeHands, UpgradeRefusal } from '@dormouse/link'
import type { WebSocket } from 'ws'
import type { z } from 'zod'
import { isDatabaseAway } from '../db/pool.ts'

export interface Proving<Host> {
  /** A nonce that nobody was given before. */
  challenge(): string
  /**
   * Answers the host that signed it; throws a refusal otherwise. `stranger` is called before anything is looked up, unless
   * the signature is that of a host which proved itself lately; what it throws ends it there.
   */
  bySignature(nonce: string, hostId: string, signature: string, stranger: () => void): Promise<Host>
}

/** What is known of those who have shown nothing yet. */
export interface Strangers {
  addressOf(request: IncomingMessage): string
  /** Throws a refusal where its address has sent too many. */
  count(request: IncomingMessage): void
  /** It was none. */
  forgive(request: IncomingMessage): void
  /** Its socket is a host's: it counts by its address no more. */
  prove(request: IncomingMessage, hostId: string): void
}

/** At once, on this replica. An agent needs one round trip: whoever waits longest for its word is a stranger. */
const maxNewcomers = 256
const limits = { timeoutMs: 5_000, maxBytes: 4_096 }

export class Newcomers<Host> {
  readonly #proving: Proving<Host>
  readonly #strangers: Strangers
  /** By the address that each comes from. Oldest first. */
  readonly #waiting = new Map<WebSocket, string>()

  constructor(proving: Proving<Host>, strangers: Strangers) {
    this.#proving = proving
    this.#strangers = strangers
  }

  /** Sockets that have proved nothing yet. */
  get count(): number {
    return this.#waiting.size
  }

  /** The host at the other end. Rejects with DialRefused where it proves nothing; the socket is closed then. */
  async meet(socket: WebSocket, request: IncomingMessage): Promise<Host> {
    this.#makeRoom()
    this.#waiting.set(socket, this.#strangers.addressOf(request))
    try {
      return await shakeHands(socket, { ...limits, raw: request.socket }, (hands) => this.#ask(hands, request))
    } finally {
      this.#waiting.delete(socket)
    }
  }

  /** The oldest of the address that has most gives way: strangers who say nothing keep no host out. */
  #makeRoom(): void {
    if (this.#waiting.size < maxNewcomers) return
    const byAddress = Map.groupBy(this.#waiting.keys(), (socket) => this.#waiting.get(socket))
    const [oldest] = [...byAddress.values()].reduce((most, some) => (some.length > most.length ? some : most))
    if (oldest) this.#waiting.delete(oldest)
    oldest?.terminate()
  }

  async #ask(hands: Handshake, request: IncomingMessage): Promise<Host | UpgradeRefusal> {
    const nonce = this.#proving.challenge()
    hands.say(JSON.stringify(linkChallenge.parse({ nonce })))
    const proof = linkProof.safeParse(parsed(await hands.hear()))
    if (!proof.success) return new UpgradeRefusal(400, 'this is no proof of a host')
    try {
      const host = await this.#prove(nonce, proof.data, request)
      hands.say(JSON.stringify(linkAccepted.parse({ accepted: true })))
      return host
    } catch (error) {
      return asUpgradeRefusal(error)
    }
  }

  async #prove(nonce: string, { hostId, signature }: z.infer<typeof linkProof>, request: IncomingMessage) {
    let isStranger = false
    const host = await this.#proving.bySignature(nonce, hostId, signature, () => {
      isStranger = true
      this.#strangers.count(request)
    })
    if (isStranger) this.#strangers.forgive(request)
    return host
  }
}

/** What one who may not come in is told; rethrows a bug. */
export function asUpgradeRefusal(error: unknown): UpgradeRefusal {
  if (error instanceof Refusal) return new UpgradeRefusal(error.status, error.detail, {}, error.code)
  if (!isDatabaseAway(error)) throw error
  const headers = { 'retry-after': '2' }
  return new UpgradeRefusal(503, 'the database does not answer; try again', headers, 'database_unavailable')
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

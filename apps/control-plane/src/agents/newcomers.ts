// Sockets that want to become links: each is given a challenge and proves who it is, before anything else is heard.
// Bounded in number, bytes and time. Knows neither keys nor hosts.
import type { IncomingMessage } from 'node:http'
import { linkAccepted, linkChallenge, linkProof, Refusal } from '@dormouse/contract'
import { type Handshake, shakeHands, UpgradeRefusal } from '@dormouse/link'
import type { WebSocket } from 'ws'
import { isDatabaseAway } from '../db/pool.ts'

export interface Proving<Host> {
  /** A nonce that nobody was given before. */
  challenge(): string
  /** Answers the host that signed it; throws a refusal otherwise. */
  bySignature(nonce: string, hostId: string, signature: string): Promise<Host>
}

/** At once, on this replica. An agent needs one round trip: whoever waits longest for its word is a stranger. */
const maxNewcomers = 256
const limits = { timeoutMs: 5_000, maxBytes: 4_096 }

export class Newcomers<Host> {
  readonly #proving: Proving<Host>
  /** Oldest first. */
  readonly #waiting = new Set<WebSocket>()

  constructor(proving: Proving<Host>) {
    this.#proving = proving
  }

  /** Sockets that have proved nothing yet. */
  get count(): number {
    return this.#waiting.size
  }

  /** The host at the other end. Rejects with DialRefused where it proves nothing; the socket is closed then. */
  async meet(socket: WebSocket, { socket: raw }: IncomingMessage): Promise<Host> {
    this.#makeRoom()
    this.#waiting.add(socket)
    try {
      return await shakeHands(socket, { ...limits, raw }, (hands) => this.#ask(hands))
    } finally {
      this.#waiting.delete(socket)
    }
  }

  /** The oldest gives way, so that strangers who say nothing keep no host out. */
  #makeRoom(): void {
    if (this.#waiting.size < maxNewcomers) return
    const [oldest] = this.#waiting
    if (oldest) this.#waiting.delete(oldest)
    oldest?.terminate()
  }

  async #ask(hands: Handshake): Promise<Host | UpgradeRefusal> {
    const nonce = this.#proving.challenge()
    hands.say(JSON.stringify(linkChallenge.parse({ nonce })))
    const proof = linkProof.safeParse(parsed(await hands.hear()))
    if (!proof.success) return new UpgradeRefusal(400, 'this is no proof of a host')
    try {
      const host = await this.#proving.bySignature(nonce, proof.data.hostId, proof.data.signature)
      hands.say(JSON.stringify(linkAccepted.parse({ accepted: true })))
      return host
    } catch (error) {
      return asUpgradeRefusal(error)
    }
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

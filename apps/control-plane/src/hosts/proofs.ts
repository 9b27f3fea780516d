// Authenticates hosts: a host signs a challenge.
import { createPublicKey, type KeyObject, randomBytes, verify } from 'node:crypto'
import { linkProofText, refuse } from '@dormouse/contract'
import type { Pool } from '../db/pool.ts'
import type { KnownHost } from './proof-store.ts'
import * as store from './proof-store.ts'

export interface ProvenHost {
  hostId: string
  name: string
}

export interface ProofsOptions {
  pool: Pool
  installationId: string
}

/** How many keys are kept in memory. */
const keptMax = 10_000

export class HostProofs {
  readonly #options: ProofsOptions
  /** Keys of recently authenticated hosts, the latest last. */
  readonly #lately = new Map<string, KeyObject>()

  constructor(options: ProofsOptions) {
    this.#options = options
  }

  /** A nonce for one socket. */
  challenge(): string {
    return randomBytes(32).toString('base64url')
  }

  /**
   * The host that signed this nonce. Refuses unknown and removed hosts. `beforeLookup` is called before anything is looked up,
   * unless a recently authenticated host signed it.
   */
  async bySignature(
    nonce: string,
    hostId: string,
    signature: string,
    beforeLookup: () => void = () => undefined,
  ): Promise<ProvenHost> {
    const isSignedWith = (key: KeyObject | undefined) => key && this.#isSigned(key, { nonce, hostId, signature })
    if (!isSignedWith(this.#lately.get(hostId))) beforeLookup()
    const host = (await this.#find(hostId)) ?? notKnown()
    const key = createPublicKey({ key: host.publicKey, format: 'jwk' })
    if (!isSignedWith(key)) notKnown()
    requirePresent(host)
    this.#remember(host.id, key)
    return { hostId: host.id, name: host.name }
  }

  #isSigned(
    key: KeyObject,
    { nonce, hostId, signature }: { nonce: string; hostId: string; signature: string },
  ): boolean {
    const text = Buffer.from(linkProofText(this.#options.installationId, hostId, nonce))
    return verify(null, text, key, Buffer.from(signature, 'base64url'))
  }

  async #find(hostId: string): Promise<KnownHost | undefined> {
    const host = await store.findKnown(this.#options.pool, hostId)
    // From now on it counts as an unauthenticated client.
    if (!host || host.removedAt) this.#lately.delete(hostId)
    return host
  }

  #remember(hostId: string, key: KeyObject): void {
    this.#lately.delete(hostId)
    const [oldest] = this.#lately.keys()
    if (oldest !== undefined && this.#lately.size >= keptMax) this.#lately.delete(oldest)
    this.#lately.set(hostId, key)
  }
}

const notKnown = (): never => refuse('unauthenticated', 'no host has this key; enrol the host again')

function requirePresent({ removedAt }: KnownHost): void {
  if (removedAt) refuse('forbidden', 'this host was removed; to use it again, enrol it with an empty state folder')
}

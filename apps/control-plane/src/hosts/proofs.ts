// Authenticates hosts: a host signs a challenge. For one more release an agent may present a token signed with its key.
import { createPublicKey, type KeyObject, randomBytes, verify } from 'node:crypto'
import { linkProofText, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { compactVerify } from 'jose'
import { z } from 'zod'
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
  log: Log
}

/** How far a token's date may be from the known clock of its host. It covers the minute for which an agent's token is dated. */
const leewaySecs = 300
/** The same while that clock is unknown: for the first token of a host that enrolled before skews were kept. */
const firstLeewaySecs = 10_800

/** How many keys are kept in memory. */
const keptMax = 10_000

const claims = z.object({ sub: z.guid(), aud: z.string(), jti: z.guid(), iat: z.int() })
type Claims = z.infer<typeof claims>

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
    const { pool } = this.#options
    const isSignedWith = (key: KeyObject | undefined) => key && this.#isSigned(key, { nonce, hostId, signature })
    if (!isSignedWith(this.#lately.get(hostId))) beforeLookup()
    const host = (await this.#find(hostId)) ?? notKnown()
    const key = createPublicKey({ key: host.publicKey, format: 'jwk' })
    if (!isSignedWith(key)) notKnown()
    requirePresent(host)
    if (!host.challengedAt) await store.noteChallenge(pool, host.id)
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

  /** Whether a recently authenticated host made this token. Looks nothing up. */
  async knowsToken(token: string): Promise<boolean> {
    const key = this.#lately.get(claimsOf(token)?.sub ?? '')
    return key !== undefined && (await isSignedToken(token, key))
  }

  /** The host that made this token. A token is valid for one link, and never for a host that has signed a challenge. */
  async byToken(token: string): Promise<ProvenHost> {
    const { pool, log } = this.#options
    const said = claimsOf(token) ?? notKnown()
    const host = (await this.#find(said.sub)) ?? notKnown()
    const key = createPublicKey({ key: host.publicKey, format: 'jwk' })
    if (said.aud !== this.#options.installationId || !(await isSignedToken(token, key))) notKnown()
    requirePresent(host)
    if (host.challengedAt)
      refuse('unauthenticated', 'this host signs challenges, so a token no longer authenticates it')
    const skewSecs = requireTimely(said, host)
    if (!(await store.useToken(pool, { hostId: host.id, tokenId: said.jti, skewSecs })))
      refuse(
        'unauthenticated',
        'this token was used before, or the host has used too many; retry later, or upgrade the agent',
      )
    this.#remember(host.id, key)
    const facts = { host: host.id, hostName: host.name }
    log.warn(facts, 'a host authenticated with a token, which the next release refuses; upgrade its agent')
    return { hostId: host.id, name: host.name }
  }
}

const isSignedToken = (token: string, key: KeyObject): Promise<boolean> =>
  compactVerify(token, key, { algorithms: ['EdDSA'] }).then(
    () => true,
    () => false,
  )

const notKnown = (): never => refuse('unauthenticated', 'no host with this key is known; enrol it again')

function requirePresent({ removedAt }: KnownHost): void {
  if (removedAt) refuse('forbidden', 'this host was removed; to use it again, enrol it with an empty state folder')
}

/** The claims of a token, not verified yet: they name the key that verifies them. */
function claimsOf(token: string): Claims | undefined {
  try {
    return claims.parse(JSON.parse(Buffer.from(token.split('.')[1] ?? '', 'base64url').toString()))
  } catch {
    return undefined
  }
}

/** How far the host's clock is ahead of ours. Refuses a date that is near neither our time nor the host's. */
function requireTimely({ iat }: Claims, { tokenSkewSecs, now }: KnownHost): number {
  const ahead = iat - Math.round(now.getTime() / 1_000)
  const near = tokenSkewSecs === null ? firstLeewaySecs : leewaySecs
  if (Math.abs(ahead) <= near || Math.abs(ahead - (tokenSkewSecs ?? 0)) <= near) return ahead
  const off = `${Math.abs(ahead)} s ${ahead < 0 ? 'old' : 'ahead of our clock'}`
  return refuse(
    'unauthenticated',
    `the token is ${off}; set the host’s clock, or upgrade its agent, which then needs no clock`,
  )
}

// Who is asking: credentials to principals. Knows no HTTP.
import { hash as digest } from 'node:crypto'
import { type CreatedKeyJson, type KeyJson, newId, type OrgJson, Refusal, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { type Db, type Note, type Pool, patiently, transaction } from '../db/pool.ts'
import type { AccessTokens, Caller } from './access-tokens.ts'
import { hashOf, type KeyKind, kindOf, makeKey } from './keys.ts'
import * as store from './store.ts'

export interface Customer {
  kind: 'customer'
  orgId: string
  /** Stable name of the credential's holder: claims are held and audited by it. Null for a token without `sub`. */
  subject: string | null
  /** Until when its access token is good, in ms since 1970; null for an API key. */
  goodUntil: number | null
}
export interface Operator {
  kind: 'operator'
  subject: string
}
export type Principal = Customer | Operator

/** A key found good stays good for this long without another look: a revocation takes effect within a second. */
const keyTrustMs = 500
/** A token found good stays good until it expires, but no longer than this: its issuer may withdraw the key behind it. */
const tokenTrustMs = 300_000
/** For so long after it was last found good, a credential is looked up whatever others do from its address. */
const latelyMs = 600_000
const touchEveryMs = 60_000
const cacheMax = 10_000

export interface Asking {
  /** How long it waits for a database that is away. */
  withinMs?: number
  /**
   * Called before anything is looked up for one whose credential was not verified lately; what it throws ends it there.
   */
  stranger?: () => void
}

interface Known {
  principal: Principal
  /** Until then it is trusted without a look. */
  until: number
  verifiedAt: number
}

export class Principals {
  readonly #pool: Pool
  readonly #log: Log
  readonly #tokens: AccessTokens | undefined
  /** The one that was verified longest ago comes first. */
  readonly #known = new Map<string, Known>()
  readonly #touched = new Map<string, number>()

  /** Without an issuer's tokens, every JWT is refused. */
  constructor(pool: Pool, log: Log, tokens?: AccessTokens) {
    this.#pool = pool
    this.#log = log
    this.#tokens = tokens
  }

  /**
   * The principal behind an `Authorization` header; refuses with 401 for anything that is not a live credential, and with
   * 503 where the identity provider would have to be asked and does not answer.
   */
  async authenticate(header: string | undefined, { withinMs, stranger }: Asking = {}): Promise<Principal> {
    const credential = /^Bearer +(\S+) *$/i.exec(header ?? '')?.[1]
    if (!credential) {
      stranger?.()
      return refuse('unauthenticated', 'there is no credential; send `Authorization: Bearer <API key or access token>`')
    }
    const name = digestOf(credential)
    const known = this.#known.get(name)
    const now = performance.now()
    if (known && known.until > now) return known.principal
    if (!known || known.verifiedAt < now - latelyMs) stranger?.()
    return kindOf(credential) ? this.#lookUp(credential, name, withinMs) : this.#verify(credential, name, withinMs)
  }

  async #verify(token: string, name: string, withinMs?: number): Promise<Principal> {
    const caller = await this.#callerOf(token, withinMs).catch((error) => {
      if (error instanceof Refusal && error.code === 'unauthenticated') this.#known.delete(name)
      throw error
    })
    const { orgId, subject, validMs } = caller
    return this.#remember(
      name,
      { kind: 'customer', orgId, subject, goodUntil: Date.now() + validMs },
      performance.now() + Math.min(validMs, tokenTrustMs),
    )
  }

  async #callerOf(token: string, withinMs?: number): Promise<Caller> {
    const caller = (await this.#tokens?.verify(token)) ?? notValid()
    return (await patiently(() => store.orgExists(this.#pool, caller.orgId), withinMs)) ? caller : notValid()
  }

  async #lookUp(key: string, name: string, withinMs?: number): Promise<Principal> {
    // Trusted from before the look: what is revoked while the answer is on its way is not trusted longer for that.
    const until = performance.now() + keyTrustMs
    const row = await patiently(() => store.findLiveKey(this.#pool, hashOf(key)), withinMs)
    if (!row) {
      this.#known.delete(name)
      return notValid()
    }
    this.#touch(row.id)
    return this.#remember(name, principalOf(row), until)
  }

  /** Notes that it was good just now; until then it is trusted without another look. */
  #remember(name: string, principal: Principal, until: number): Principal {
    this.#known.delete(name)
    const [oldest] = this.#known.keys()
    if (oldest !== undefined && this.#known.size >= cacheMax) this.#known.delete(oldest)
    this.#known.set(name, { principal, until, verifiedAt: performance.now() })
    return principal
  }

  /** Notes the use of a key, at most once a minute, and never in the way of the request. */
  #touch(id: string): void {
    const now = performance.now()
    if (now - (this.#touched.get(id) ?? -touchEveryMs) < touchEveryMs) return
    if (this.#touched.size >= cacheMax) this.#touched.clear()
    this.#touched.set(id, now)
    store.touchKey(this.#pool, id).catch((error) => this.#log.warn({ err: error }, 'the use of a key was not noted'))
  }

  /** Those of these subjects whose keys were revoked. A token's holder is never known to be. */
  async withdrawn(subjects: string[], db: Db = this.#pool): Promise<Set<string>> {
    const ids = subjects.filter((subject) => subject.startsWith('key:')).map((subject) => subject.slice('key:'.length))
    if (ids.length === 0) return new Set()
    return new Set((await store.revokedAmong(db, ids)).map((id) => `key:${id}`))
  }

  createOrg(name: string, note: Note = unnoted): Promise<OrgJson> {
    return transaction(this.#pool, async (tx) => {
      const org = await store.insertOrg(tx, newId(), name)
      await note(tx, org.id, { name })
      return org
    })
  }

  listOrgs(): Promise<OrgJson[]> {
    return patiently(() => store.listOrgs(this.#pool))
  }

  /** Sets how many desktops an organisation may have; null leaves it to the settings. The leader heeds it within a second. */
  limitOrg(id: string, maxDesktops: number | null, note: Note = unnoted): Promise<OrgJson> {
    return transaction(this.#pool, async (tx) => {
      const { org, before } = (await store.limitOrg(tx, id, maxDesktops)) ?? unknownOrg()
      await note(tx, id, { max_desktops: maxDesktops, before })
      return org
    })
  }

  /** Makes a customer's key; the answer is the only place where it is ever shown. */
  async createKey(orgId: string, name: string, note: Note = unnoted): Promise<CreatedKeyJson> {
    const { key, row } = await this.#insertKey('customer', orgId, name, note)
    return { ...store.keyToJson(row), api_key: key }
  }

  /** Makes an operator's key. Only from the command line of the control plane itself. */
  async createOperatorKey(name: string, note: Note = unnoted): Promise<string> {
    return (await this.#insertKey('operator', null, name, note)).key
  }

  /** Whoever shows it first is no stranger. */
  async #insertKey(kind: KeyKind, orgId: string | null, name: string, note: Note) {
    const { key, hash } = makeKey(kind)
    const row = await transaction(this.#pool, async (tx) => {
      const made = (await store.insertKey(tx, { id: newId(), orgId, name, hash })) ?? unknownOrg()
      await note(tx, made.id, { name, ...(orgId && { org_id: orgId }) })
      return made
    })
    this.#remember(digestOf(key), principalOf(row), 0)
    return { key, row }
  }

  async listKeys(orgId: string | null): Promise<KeyJson[]> {
    return (await patiently(() => store.listKeys(this.#pool, orgId))).map(store.keyToJson)
  }

  async revokeKey(id: string, note: Note = unnoted): Promise<void> {
    await transaction(this.#pool, async (tx) => {
      if (!(await store.revokeKey(tx, id)))
        refuse('not_found', 'there is no such key; `dormouse admin key list --org <id>` lists them')
      await note(tx, id)
    })
    // All are looked up again, and none becomes a stranger for it.
    for (const known of this.#known.values()) known.until = 0
  }
}

const unknownOrg = () => refuse('not_found', 'there is no such organisation; `dormouse admin org list` lists them')

const unnoted: Note = async () => undefined

/** By what a credential is kept: the memory of a process holds none for longer than a request. */
const digestOf = (credential: string): string => digest('sha256', credential, 'base64')

function principalOf({ id, orgId }: store.KeyRow): Principal {
  const subject = `key:${id}`
  return orgId ? { kind: 'customer', orgId, subject, goodUntil: null } : { kind: 'operator', subject }
}

const notValid = (): never => refuse('unauthenticated')

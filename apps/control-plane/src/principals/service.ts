// Authenticates credentials, and manages organisations and keys. Knows no HTTP.
import { hash as digest } from 'node:crypto'
import {
  type ChangeOperatorKeyBody,
  type CreatedKeyJson,
  type CreatedOperatorKeyJson,
  type CreatedOwnKeyJson,
  type CreateOperatorKeyBody,
  type KeyJson,
  keysMax,
  type Labels,
  newId,
  type OperatorKeyJson,
  type OrgJson,
  type OwnKeyJson,
  Refusal,
  type Right,
  refuse,
  refuseNotFound,
  rights,
} from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { inLane } from '../db/lanes.ts'
import { type Db, isDatabaseUnavailable, type Note, type Pool, retryWhileUnavailable } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import type { AccessTokens, Caller } from './access-tokens.ts'
import { hashOf, type KeyKind, kindOf, limitedHashOf, makeKey } from './keys.ts'
import { admits, isWithin, type Reach, type Scope, scopeIn, storedScope } from './scope.ts'
import * as store from './store.ts'

export interface Customer {
  kind: 'customer'
  orgId: string
  /** Stable name of the credential's holder, for claims and the audit log. Null for a token without `sub`. */
  subject: string | null
  /** When its credential expires, in ms since 1970; null if it does not. */
  goodUntil: number | null
  /** Null: every right. */
  can: readonly Right[] | null
  /** The desktops that exist for it; null: all of its organisation. */
  scope: Scope | null
}
export interface Operator {
  kind: 'operator'
  /** `metrics` reads metrics and nothing else. */
  role: OperatorKeyJson['role']
  subject: string
}
export type Principal = Customer | Operator

/** A verified key is trusted for this long without a look-up: a revocation takes effect within a second. */
const keyTrustMs = 500
/** A verified token is trusted until it expires, at most this long: its issuer may withdraw the key behind it. */
const tokenTrustMs = 300_000
/** For this long after its last verification, a credential is not counted by its address. */
const recentMs = 600_000
const touchEveryMs = 60_000
const cacheMax = 10_000

export interface AuthenticateOptions {
  /** How long to wait for an unavailable database. */
  withinMs?: number
  /** Called before the look-up of a credential that was not verified lately. What it throws ends the request. */
  beforeLookUp?: () => void
  /** If the database is unavailable, trusts a key that was verified within the last ten minutes. For reading metrics only. */
  trustsLately?: boolean
}

interface Known {
  principal: Principal
  /** Trusted without a look-up until then. */
  until: number
  verifiedAt: number
}

/** Of the holders of open streams. */
export interface Standing {
  /** Whether its key is neither revoked nor expired. */
  isValid(subject: string): boolean
  /** Whether it is valid and reaches this desktop. */
  reaches(subject: string, desktop: { id: string; labels: Labels }): boolean
}

/** A key that a customer makes. */
export interface WantedKey {
  name: string
  can: readonly Right[]
  scope: Scope | null
  validSecs: number | null
}

export class Principals {
  readonly #pool: Pool
  readonly #log: Log
  readonly #tokens: AccessTokens | undefined
  /** By digest of the credential; the least recently verified first. */
  readonly #known = new Map<string, Known>()
  readonly #touched = new Map<string, number>()
  /** By digest of the key. */
  readonly #lookingUp = new Map<string, { since: number; found: Promise<Principal> }>()

  /** Without `tokens`, every JWT is refused. */
  constructor(pool: Pool, log: Log, tokens?: AccessTokens) {
    this.#pool = pool
    this.#log = log
    this.#tokens = tokens
  }

  /** The principal of an `Authorization` header that is trusted without a look-up; undefined if one is needed. */
  trusted(header: string | undefined): Principal | undefined {
    const credential = credentialIn(header)
    const known = credential && this.#known.get(digestOf(credential))
    return known && known.until > performance.now() ? known.principal : undefined
  }

  /**
   * The principal of an `Authorization` header. Refuses with 401 for anything but a valid credential, and with 503 if the
   * identity provider is needed and unavailable.
   */
  async authenticate(
    header: string | undefined,
    { withinMs, beforeLookUp, trustsLately = false }: AuthenticateOptions = {},
  ): Promise<Principal> {
    const credential = credentialIn(header)
    if (!credential) {
      beforeLookUp?.()
      return refuse(
        'unauthenticated',
        'the credential is missing; send `Authorization: Bearer <API key or access token>`',
      )
    }
    const name = digestOf(credential)
    const known = this.#known.get(name)
    if (known && known.until > performance.now()) return known.principal
    const isRecent = known !== undefined && known.verifiedAt >= performance.now() - recentMs
    if (!isRecent) beforeLookUp?.()
    if (!kindOf(credential)) return this.#verify(credential, name, withinMs)
    const lookUp = () => this.#lookUpOnce(credential, name, withinMs)
    const found = isRecent ? inLane('control', lookUp) : lookUp()
    if (!isRecent || !trustsLately) return found
    return found.catch((error) => {
      if (!isDatabaseUnavailable(error)) throw error
      return known.principal
    })
  }

  async #verify(token: string, name: string, withinMs?: number): Promise<Principal> {
    const caller = await this.#callerOf(token, withinMs).catch((error) => {
      if (error instanceof Refusal && error.code === 'unauthenticated') this.#known.delete(name)
      throw error
    })
    const { validMs, ...customer } = caller
    return this.#remember(
      name,
      { kind: 'customer', ...customer, goodUntil: Date.now() + validMs },
      performance.now() + Math.min(validMs, tokenTrustMs),
    )
  }

  async #callerOf(token: string, withinMs?: number): Promise<Caller> {
    const caller = (await this.#tokens?.verify(token)) ?? refuse('unauthenticated')
    return (await retryWhileUnavailable(() => store.orgExists(this.#pool, caller.orgId), withinMs))
      ? caller
      : refuse('unauthenticated')
  }

  /** Joins a look-up of the same key that has just begun: on a busy service, many requests come before it has ended. */
  #lookUpOnce(key: string, name: string, withinMs?: number): Promise<Principal> {
    const now = performance.now()
    const underWay = this.#lookingUp.get(name)
    if (underWay && underWay.since > now - keyTrustMs) return underWay.found
    const found = this.#lookUp(key, name, withinMs)
    const looking = { since: now, found }
    this.#lookingUp.set(name, looking)
    const forget = () => {
      if (this.#lookingUp.get(name) === looking) this.#lookingUp.delete(name)
    }
    found.then(forget, forget)
    return found
  }

  async #lookUp(key: string, name: string, withinMs?: number): Promise<Principal> {
    // Measured from before the query, so that a revocation during it is not trusted for longer.
    const asked = performance.now()
    const row = await retryWhileUnavailable(
      () => store.findLiveKey(this.#pool, [hashOf(key), limitedHashOf(key)]),
      withinMs,
    )
    if (!row) {
      this.#known.delete(name)
      return refuse('unauthenticated')
    }
    this.#touch(row.id)
    const leftMs = row.expiresAt ? row.expiresAt.getTime() - Date.now() : Number.POSITIVE_INFINITY
    return this.#remember(name, principalOf(row), asked + Math.min(leftMs, keyTrustMs))
  }

  /** Caches a verified credential, trusted without a look-up until the given time. */
  #remember(name: string, principal: Principal, until: number): Principal {
    this.#known.delete(name)
    const [oldest] = this.#known.keys()
    if (oldest !== undefined && this.#known.size >= cacheMax) this.#known.delete(oldest)
    this.#known.set(name, { principal, until, verifiedAt: performance.now() })
    return principal
  }

  /** Records the use of a key, at most once a minute, without delaying the request. */
  #touch(id: string): void {
    const now = performance.now()
    if (now - (this.#touched.get(id) ?? -touchEveryMs) < touchEveryMs) return
    if (this.#touched.size >= cacheMax) this.#touched.clear()
    this.#touched.set(id, now)
    store.touchKey(this.#pool, id).catch((error) => this.#log.warn({ err: error }, 'the use of a key was not recorded'))
  }

  /** The subjects whose keys were revoked, or have expired. Never a token's holder: tokens expire. */
  async withdrawn(subjects: string[], db: Db = this.#pool): Promise<Set<string>> {
    const { isValid } = await this.standing(subjects, db)
    return new Set(subjects.filter((subject) => !isValid(subject)))
  }

  /** What these subjects may do now. Nothing is known of a token's holder: tokens expire. */
  async standing(subjects: string[], db: Db = this.#pool): Promise<Standing> {
    const idOf = (subject: string) => (subject.startsWith(keySubject) ? subject.slice(keySubject.length) : undefined)
    const ids = subjects.flatMap((subject) => idOf(subject) ?? [])
    const live = ids.length === 0 ? new Map<string, never>() : await store.liveAmong(db, ids)
    const rowOf = (subject: string) => live.get(idOf(subject) ?? '')
    const isValid = (subject: string) => idOf(subject) === undefined || rowOf(subject) !== undefined
    return {
      isValid,
      reaches: (subject, desktop) => {
        const row = rowOf(subject)
        return isValid(subject) && (row === undefined || admits(scopeIn(row), desktop))
      },
    }
  }

  createOrg(name: string, note: Note = unnoted): Promise<OrgJson> {
    return transaction(this.#pool, async (tx) => {
      const org = await store.insertOrg(tx, newId(), name)
      await note(tx, org.id, { name })
      return org
    })
  }

  listOrgs(): Promise<OrgJson[]> {
    return retryWhileUnavailable(() => store.listOrgs(this.#pool))
  }

  /** Limits an organisation's desktops; null applies the default. The leader applies it within a second. */
  limitOrg(id: string, maxDesktops: number | null, note: Note = unnoted): Promise<OrgJson> {
    return transaction(this.#pool, async (tx) => {
      const { org, before } = (await store.limitOrg(tx, id, maxDesktops)) ?? unknownOrg()
      await note(tx, id, { max_desktops: maxDesktops, before })
      return org
    })
  }

  /** Nothing of a suspended organisation wakes, and what is awake hibernates. Idempotent. */
  suspendOrg(id: string, suspended: boolean, note: Note = unnoted): Promise<OrgJson> {
    return transaction(this.#pool, async (tx) => {
      const { org, changed } = (await store.suspendOrg(tx, id, suspended)) ?? unknownOrg()
      await note(tx, id, changed ? { name: org.name } : null)
      return org
    })
  }

  /** Creates a customer's key with every right. The key is returned here and never shown again. */
  async createKey(orgId: string, name: string, note: Note = unnoted): Promise<CreatedKeyJson> {
    const { key, row } = await this.#insertKey('customer', { orgId, name }, note)
    return { ...store.keyToJson(row), api_key: key }
  }

  /** Creates the key that a customer makes; whether it may is for others to decide. Refuses above the limit of valid keys. */
  async createOwnKey(
    { orgId, subject }: Customer,
    { name, can, scope, validSecs }: WantedKey,
    note: Note,
  ): Promise<CreatedOwnKeyJson> {
    const limits = {
      can: can.length === rights.length ? null : [...can],
      ...storedScope(scope),
      madeBy: subject ?? `jwt-of:${orgId}`,
    }
    const wish = { orgId, name, limits, ...(validSecs !== null && { validSecs }) }
    const { key, row } = await this.#insertKey('customer', wish, async (tx, id, details) => {
      if ((await store.countLiveKeys(tx, orgId)) > keysMax)
        refuse('conflict', `the organisation has ${keysMax} valid keys, which is the limit; revoke some`)
      await note(tx, id, details)
    })
    return { ...store.ownKeyToJson(row), api_key: key }
  }

  /** The valid keys that a caller may know of: those whose scope is within its own. */
  async listOwnKeys({ orgId, scope }: Reach): Promise<OwnKeyJson[]> {
    const rows = await retryWhileUnavailable(() => store.listLiveKeys(this.#pool, orgId))
    return rows.filter((row) => isWithin(scopeIn(row), scope)).map(store.ownKeyToJson)
  }

  /** Revokes a key that the caller may know of. Idempotent. */
  async revokeOwnKey({ orgId, scope }: Reach, id: string, note: Note): Promise<void> {
    await transaction(this.#pool, async (tx) => {
      const row = await store.findKeyOf(tx, orgId, id)
      if (!row || !isWithin(scopeIn(row), scope)) refuseNotFound()
      if (row.revokedAt) return
      await store.revokeKey(tx, id, 'customer')
      await note(tx, id)
    })
    this.#lookUpAll()
  }

  /** Creates an operator's key. The key is returned here and never shown again. */
  async makeOperatorKey(
    { name, role, valid_secs: validSecs }: CreateOperatorKeyBody,
    note: Note = unnoted,
  ): Promise<CreatedOperatorKeyJson> {
    const { key, row } = await this.#insertKey('operator', { orgId: null, name, role, validSecs }, note)
    return { ...store.operatorKeyToJson(row), operator_key: key }
  }

  /** Creates the key of an operator who may do everything. */
  async createOperatorKey(name: string, note: Note = unnoted): Promise<string> {
    return (await this.makeOperatorKey({ name }, note)).operator_key
  }

  /** Caches the new key, so that its first use is not counted by address. */
  async #insertKey(kind: KeyKind, wish: Omit<store.NewKey, 'id' | 'hash'>, note: Note) {
    const key = makeKey(kind)
    const { orgId, name, role, validSecs, limits } = wish
    const isLimited =
      limits !== undefined && (limits.can ?? limits.selector ?? limits.desktopId ?? validSecs ?? null) !== null
    const hash = isLimited ? limitedHashOf(key) : hashOf(key)
    const row = await transaction(this.#pool, async (tx) => {
      const made = (await store.insertKey(tx, { id: newId(), hash, ...wish })) ?? unknownOrg()
      await note(tx, made.id, { name, ...(orgId && { org_id: orgId }), role, valid_secs: validSecs })
      return made
    })
    this.#remember(digestOf(key), principalOf(row), 0)
    return { key, row }
  }

  async listOperatorKeys(): Promise<OperatorKeyJson[]> {
    return (await retryWhileUnavailable(() => store.listOperatorKeys(this.#pool))).map(store.operatorKeyToJson)
  }

  /** Renames an operator's key, or lets it expire. */
  async changeOperatorKey(
    id: string,
    { name, valid_secs: validSecs }: ChangeOperatorKeyBody,
    note: Note = unnoted,
  ): Promise<OperatorKeyJson> {
    const row = await transaction(this.#pool, async (tx) => {
      const changed = (await store.changeOperatorKey(tx, id, { name, validSecs })) ?? unknownKey('operator')
      await note(tx, id, { name, valid_secs: validSecs })
      return changed
    })
    this.#lookUpAll()
    return store.operatorKeyToJson(row)
  }

  async listKeys(orgId: string | null): Promise<KeyJson[]> {
    return (await retryWhileUnavailable(() => store.listKeys(this.#pool, orgId))).map(store.keyToJson)
  }

  async revokeKey(id: string, note: Note = unnoted, kind: KeyKind = 'customer'): Promise<void> {
    await transaction(this.#pool, async (tx) => {
      if (!(await store.revokeKey(tx, id, kind))) unknownKey(kind)
      await note(tx, id)
    })
    this.#lookUpAll()
  }

  /** Every cached credential is looked up again; none counts by address for that. */
  #lookUpAll(): void {
    for (const known of this.#known.values()) known.until = 0
    this.#lookingUp.clear()
  }
}

const credentialIn = (header = ''): string | undefined => /^Bearer +(\S+) *$/i.exec(header)?.[1]

export const unknownOrg = () =>
  refuse('not_found', 'there is no such organisation; `dormouse admin org list` lists them')

const unknownKey = (kind: KeyKind) =>
  refuse(
    'not_found',
    kind === 'customer'
      ? 'there is no such key; `dormouse admin key list --org <id>` lists them'
      : 'there is no such key that is not revoked; `dormouse admin operator-key list` lists them',
  )

const unnoted: Note = async () => undefined

/** The cache key: the process keeps no credential in memory for longer than a request. */
const digestOf = (credential: string): string => digest('sha256', credential, 'base64')

const keySubject = 'key:'

function principalOf(row: store.KeyRow): Principal {
  const { id, orgId, role, expiresAt, can } = row
  const subject = `${keySubject}${id}`
  if (!orgId) return { kind: 'operator', role, subject }
  return { kind: 'customer', orgId, subject, goodUntil: expiresAt?.getTime() ?? null, can, scope: scopeIn(row) }
}

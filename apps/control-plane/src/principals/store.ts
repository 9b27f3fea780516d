// Organisations and keys: the tables. The only module that writes them.
import {
  type KeyJson,
  type OperatorKeyJson,
  type OrgJson,
  type OwnKeyJson,
  type Right,
  rights,
} from '@dormouse/contract'
import { keepNewest } from '../db/newest.ts'
import type { Db } from '../db/pool.ts'

export interface KeyRow {
  id: string
  orgId: string | null
  name: string
  role: OperatorKeyJson['role']
  /** Null: every right. */
  can: Right[] | null
  selector: string | null
  desktopId: string | null
  /** The subject of the customer's credential that made it; null: an operator. */
  madeBy: string | null
  createdAt: Date
  expiresAt: Date | null
  lastUsedAt: Date | null
  revokedAt: Date | null
}

const keyColumns = `id, org_id as "orgId", name, role, can, selector, desktop_id as "desktopId",
  made_by as "madeBy", created_at as "createdAt", expires_at as "expiresAt",
  last_used_at as "lastUsedAt", revoked_at as "revokedAt"`

const isLive = 'revoked_at is null and (expires_at is null or expires_at > now())'

interface OrgRow {
  id: string
  name: string
  maxDesktops: number | null
  suspendedAt: Date | null
  createdAt: Date
}

const orgColumns = 'id, name, max_desktops as "maxDesktops", suspended_at as "suspendedAt", created_at as "createdAt"'

const orgToJson = ({ id, name, maxDesktops, suspendedAt, createdAt }: OrgRow): OrgJson => ({
  id,
  name,
  max_desktops: maxDesktops,
  suspended_at: suspendedAt?.toISOString() ?? null,
  created_at: createdAt.toISOString(),
})

export async function insertOrg(db: Db, id: string, name: string): Promise<OrgJson> {
  const { rows } = await db.query<OrgRow>(
    `insert into organisations (id, name) values ($1, $2) returning ${orgColumns}`,
    [id, name],
  )
  return orgToJson(rows[0]!)
}

export async function listOrgs(db: Db): Promise<OrgJson[]> {
  const { rows } = await db.query<OrgRow>(`select ${orgColumns} from organisations order by id`)
  return rows.map(orgToJson)
}

/** Returns the organisation as it is now, and its limit before; undefined if there is none. */
export async function limitOrg(
  db: Db,
  id: string,
  maxDesktops: number | null,
): Promise<{ org: OrgJson; before: number | null } | undefined> {
  const earlier = await db.query<OrgRow>(`select ${orgColumns} from organisations where id = $1 for no key update`, [
    id,
  ])
  const [before] = earlier.rows
  if (!before) return undefined
  await db.query('update organisations set max_desktops = $2 where id = $1', [id, maxDesktops])
  return { org: orgToJson({ ...before, maxDesktops }), before: before.maxDesktops }
}

/** Undefined if there is no such organisation; `changed` is false if it was so before. */
export async function suspendOrg(
  db: Db,
  id: string,
  suspended: boolean,
): Promise<{ org: OrgJson; changed: boolean } | undefined> {
  const { rows } = await db.query<OrgRow>(
    `update organisations set suspended_at = case when $2 then now() end
     where id = $1 and (suspended_at is not null) <> $2 returning ${orgColumns}`,
    [id, suspended],
  )
  const [now] = rows[0]
    ? rows
    : (await db.query<OrgRow>(`select ${orgColumns} from organisations where id = $1`, [id])).rows
  return now && { org: orgToJson(now), changed: rows.length > 0 }
}

export async function isSuspended(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'orgs-suspended',
    text: 'select 1 from organisations where id = $1 and suspended_at is not null',
    values: [id],
  })
  return rowCount === 1
}

export async function orgExists(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'orgs-exists',
    text: 'select 1 from organisations where id = $1',
    values: [id],
  })
  return rowCount === 1
}

export interface NewKey extends Pick<KeyRow, 'id' | 'orgId' | 'name'> {
  hash: Buffer
  role?: KeyRow['role'] | undefined
  validSecs?: number | undefined
  limits?: Pick<KeyRow, 'can' | 'selector' | 'desktopId' | 'madeBy'> | undefined
}

/** Undefined if there is no such organisation. `orgId` null makes an operator's key. */
export async function insertKey(db: Db, key: NewKey): Promise<KeyRow | undefined> {
  const { can, selector, desktopId, madeBy } = key.limits ?? {}
  const { rows } = await db.query<KeyRow>(
    `insert into keys (id, org_id, name, hash, role, expires_at, can, selector, desktop_id, made_by)
     select $1, $2, $3, $4, $5, now() + $6 * interval '1 second', $7, $8, $9, $10
     where $2::uuid is null or exists (select 1 from organisations where id = $2)
     returning ${keyColumns}`,
    [
      ...[key.id, key.orgId, key.name, key.hash, key.role ?? 'operator', key.validSecs ?? null],
      ...[can ?? null, selector ?? null, desktopId ?? null, madeBy ?? null],
    ],
  )
  return rows[0]
}

/** The valid keys of an organisation. Its row stays locked, so that two requests do not both make the last one. */
export async function countLiveKeys(db: Db, orgId: string): Promise<number> {
  await db.query('select 1 from organisations where id = $1 for no key update', [orgId])
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from keys where org_id = $1 and ${isLive}`,
    [orgId],
  )
  return rows[0]!.count
}

export async function listLiveKeys(db: Db, orgId: string): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `select ${keyColumns} from keys where org_id = $1 and ${isLive} order by id`,
    [orgId],
  )
  return rows
}

export async function findKeyOf(db: Db, orgId: string, id: string): Promise<KeyRow | undefined> {
  const { rows } = await db.query<KeyRow>(`select ${keyColumns} from keys where org_id = $1 and id = $2`, [orgId, id])
  return rows[0]
}

/** Kept for each organisation: the newest of all, and every valid one. */
const most = 10_000

/** Deletes keys that are no longer valid, of organisations that have too many; returns how many. */
export const pruneKeys = (db: Db): Promise<number> =>
  keepNewest(db, { table: 'keys', of: 'org_id', most, settled: `not (${isLive})` })

export async function listKeys(db: Db, orgId: string | null): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `select ${keyColumns} from keys where org_id is not null and ($1::uuid is null or org_id = $1) order by id`,
    [orgId],
  )
  return rows
}

export async function listOperatorKeys(db: Db): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(`select ${keyColumns} from keys where org_id is null order by id`)
  return rows
}

/** Undefined if there is no such key of an operator that is not revoked. `validSecs` null: it never expires. */
export async function changeOperatorKey(
  db: Db,
  id: string,
  change: { name?: string; validSecs?: number | null },
): Promise<KeyRow | undefined> {
  const { rows } = await db.query<KeyRow>(
    `update keys set name = coalesce($2, name),
       expires_at = case when $3 then now() + $4 * interval '1 second' else expires_at end
     where id = $1 and org_id is null and revoked_at is null returning ${keyColumns}`,
    [id, change.name ?? null, change.validSecs !== undefined, change.validSecs ?? null],
  )
  return rows[0]
}

/** False if there is no such key, of a customer or of an operator. Revoking twice keeps the first time. */
export async function revokeKey(db: Db, id: string, kind: 'customer' | 'operator'): Promise<boolean> {
  const { rowCount } = await db.query(
    `update keys set revoked_at = coalesce(revoked_at, now()) where id = $1 and (org_id is null) = $2`,
    [id, kind === 'operator'],
  )
  return rowCount === 1
}

/** The valid key with one of these hashes. */
export async function findLiveKey(db: Db, hashes: Buffer[]): Promise<KeyRow | undefined> {
  const { rows } = await db.query<KeyRow>({
    name: 'keys-live-by-hashes',
    text: `select ${keyColumns} from keys where hash = any($1) and ${isLive}`,
    values: [hashes],
  })
  return rows[0]
}

/** Those of these keys that are valid, with what they reach. */
export async function liveAmong(
  db: Db,
  ids: string[],
): Promise<Map<string, Pick<KeyRow, 'id' | 'selector' | 'desktopId'>>> {
  const { rows } = await db.query<Pick<KeyRow, 'id' | 'selector' | 'desktopId'>>({
    name: 'keys-live-among',
    text: `select id, selector, desktop_id as "desktopId" from keys where id = any($1) and ${isLive}`,
    values: [ids],
  })
  return new Map(rows.map((row) => [row.id, row]))
}

export async function touchKey(db: Db, id: string): Promise<void> {
  await db.query('update keys set last_used_at = now() where id = $1', [id])
}

export const keyToJson = (row: KeyRow): KeyJson => ({
  id: row.id,
  org_id: row.orgId!,
  ...shownOf(row),
  revoked_at: row.revokedAt?.toISOString() ?? null,
})

export const ownKeyToJson = (row: KeyRow): OwnKeyJson => ({ id: row.id, ...shownOf(row) })

const shownOf = (row: KeyRow) => ({
  name: row.name,
  can: row.can ?? [...rights],
  select: row.selector,
  desktop_id: row.desktopId,
  made_by: row.madeBy,
  created_at: row.createdAt.toISOString(),
  expires_at: row.expiresAt?.toISOString() ?? null,
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
})

export const operatorKeyToJson = (row: KeyRow): OperatorKeyJson => ({
  id: row.id,
  name: row.name,
  role: row.role,
  created_at: row.createdAt.toISOString(),
  expires_at: row.expiresAt?.toISOString() ?? null,
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
  revoked_at: row.revokedAt?.toISOString() ?? null,
})

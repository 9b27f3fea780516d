// Organisations and keys: the tables. The only module that writes them.
import type { KeyJson, OrgJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface KeyRow {
  id: string
  orgId: string | null
  name: string
  createdAt: Date
  lastUsedAt: Date | null
  revokedAt: Date | null
}

const keyColumns = `id, org_id as "orgId", name, created_at as "createdAt", last_used_at as "lastUsedAt",
  revoked_at as "revokedAt"`

interface OrgRow {
  id: string
  name: string
  maxDesktops: number | null
  createdAt: Date
}

const orgColumns = 'id, name, max_desktops as "maxDesktops", created_at as "createdAt"'

const orgToJson = ({ id, name, maxDesktops, createdAt }: OrgRow): OrgJson => ({
  id,
  name,
  max_desktops: maxDesktops,
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

export async function orgExists(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'orgs-exists',
    text: 'select 1 from organisations where id = $1',
    values: [id],
  })
  return rowCount === 1
}

/** Undefined if there is no such organisation. `orgId` null makes an operator's key. */
export async function insertKey(
  db: Db,
  key: { id: string; orgId: string | null; name: string; hash: Buffer },
): Promise<KeyRow | undefined> {
  const { rows } = await db.query<KeyRow>(
    `insert into keys (id, org_id, name, hash)
     select $1, $2, $3, $4 where $2::uuid is null or exists (select 1 from organisations where id = $2)
     returning ${keyColumns}`,
    [key.id, key.orgId, key.name, key.hash],
  )
  return rows[0]
}

export async function listKeys(db: Db, orgId: string | null): Promise<KeyRow[]> {
  const { rows } = await db.query<KeyRow>(
    `select ${keyColumns} from keys where org_id is not null and ($1::uuid is null or org_id = $1) order by id`,
    [orgId],
  )
  return rows
}

/** False if there is no such customer key. Revoking twice keeps the first time. */
export async function revokeKey(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'update keys set revoked_at = coalesce(revoked_at, now()) where id = $1 and org_id is not null',
    [id],
  )
  return rowCount === 1
}

export async function findLiveKey(db: Db, hash: Buffer): Promise<KeyRow | undefined> {
  const { rows } = await db.query<KeyRow>({
    name: 'keys-live',
    text: `select ${keyColumns} from keys where hash = $1 and revoked_at is null`,
    values: [hash],
  })
  return rows[0]
}

export async function revokedAmong(db: Db, ids: string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'keys-revoked-among',
    text: 'select id from keys where id = any($1) and revoked_at is not null',
    values: [ids],
  })
  return rows.map(({ id }) => id)
}

export async function touchKey(db: Db, id: string): Promise<void> {
  await db.query('update keys set last_used_at = now() where id = $1', [id])
}

export const keyToJson = (row: KeyRow): KeyJson => ({
  id: row.id,
  org_id: row.orgId!,
  name: row.name,
  created_at: row.createdAt.toISOString(),
  last_used_at: row.lastUsedAt?.toISOString() ?? null,
  revoked_at: row.revokedAt?.toISOString() ?? null,
})

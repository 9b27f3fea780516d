// The table of URLs that are handed on. No other module writes it.
import type { DesktopState, FileUrlMethod, Labels } from '@dormouse/contract'
import { keepNewest } from '../db/newest.ts'
import type { Db } from '../db/pool.ts'

export interface FileUrlRow {
  id: string
  orgId: string
  desktopId: string
  path: string
  method: FileUrlMethod
  maxBytes: number | null
  once: boolean
  madeBy: string
  createdAt: Date
  expiresAt: Date
  isExpired: boolean
  isRevoked: boolean
  uses: number
  lastUsedAt: Date | null
}

const columns = `f.id, f.org_id as "orgId", f.desktop_id as "desktopId", f.path, f.method, f.max_bytes::float8 as "maxBytes",
  f.once, f.made_by as "madeBy", f.created_at as "createdAt", f.expires_at as "expiresAt",
  f.expires_at <= clock_timestamp() as "isExpired", f.revoked_at is not null as "isRevoked", f.uses,
  f.last_used_at as "lastUsedAt"`
const isLive = `f.revoked_at is null and f.expires_at > clock_timestamp() and not (f.once and f.uses > 0)`

export interface NewFileUrl extends Pick<FileUrlRow, 'id' | 'orgId' | 'desktopId' | 'path' | 'method' | 'maxBytes'> {
  once: boolean
  hash: Buffer
  madeBy: string
}

export async function insert(db: Db, url: NewFileUrl, forMs: number): Promise<FileUrlRow> {
  const { rows } = await db.query<FileUrlRow>(
    `insert into file_urls as f (id, org_id, desktop_id, path, method, max_bytes, once, hash, made_by, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, clock_timestamp() + $10 * interval '1 millisecond') returning ${columns}`,
    [url.id, url.orgId, url.desktopId, url.path, url.method, url.maxBytes, url.once, url.hash, url.madeBy, forMs],
  )
  return rows[0]!
}

export async function countLive(db: Db, desktopId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from file_urls f where desktop_id = $1 and ${isLive}`,
    [desktopId],
  )
  return rows[0]!.count
}

/** The live ones, then the newest. */
export async function list(db: Db, desktopId: string, limit: number): Promise<FileUrlRow[]> {
  const { rows } = await db.query<FileUrlRow>(
    `select ${columns} from file_urls f where desktop_id = $1 order by (${isLive}) desc, created_at desc, id limit $2`,
    [desktopId, limit],
  )
  return rows
}

export interface Addressed extends FileUrlRow {
  hash: Buffer
  desktopState: DesktopState
  desktopLabels: Labels
}

/** The URL with this id, of any organisation. */
export async function find(db: Db, id: string): Promise<Addressed | undefined> {
  const { rows } = await db.query<Addressed>({
    name: 'file-urls-find-with-labels',
    text: `select ${columns}, f.hash, d.state as "desktopState", d.labels as "desktopLabels"
           from file_urls f join desktops d on d.id = f.desktop_id where f.id = $1`,
    values: [id],
  })
  return rows[0]
}

/** Counts a use. False if it may not be used, or not any more: of two at once, `once` admits one. */
export async function spend(db: Db, id: string, usesMax: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update file_urls f set uses = uses + 1, last_used_at = clock_timestamp() where id = $1 and ${isLive} and uses < $2`,
    [id, usesMax],
  )
  return rowCount === 1
}

/** False if the desktop has no such URL. Revoking twice keeps the first time. */
export async function revoke(db: Db, desktopId: string, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'update file_urls set revoked_at = coalesce(revoked_at, clock_timestamp()) where id = $1 and desktop_id = $2',
    [id, desktopId],
  )
  return rowCount === 1
}

export async function revokedAmong(db: Db, ids: string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select id from file_urls where id = any($1) and revoked_at is not null',
    [ids],
  )
  return rows.map(({ id }) => id)
}

const keptDays = 7
const prunedAtOnce = 5_000
/** Kept for each desktop, beside the active ones. */
const most = 10_000

/** Deletes what expired a week ago, and of a desktop that has too many, those that have ended; returns how many. */
export async function prune(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from file_urls where id in (
       select id from file_urls where expires_at < now() - interval '${keptDays} days' order by expires_at limit ${prunedAtOnce})`,
  )
  const settled = 'revoked_at is not null or (once and uses > 0) or expires_at <= clock_timestamp()'
  return (rowCount ?? 0) + (await keepNewest(db, { table: 'file_urls', of: 'desktop_id', most, settled }))
}

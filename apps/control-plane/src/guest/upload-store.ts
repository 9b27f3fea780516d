// The table of uploads. No other module writes it.
import type { Db } from '../db/pool.ts'

export interface UploadRow {
  id: string
  desktopId: string
  path: string
  mode: number | null
  owner: string | null
  length: number | null
  state: 'open' | 'placing' | 'complete'
  expiresAt: Date
}

const columns = `id, desktop_id as "desktopId", path, mode, owner, length, state, expires_at as "expiresAt"`
const isLive = 'expires_at > clock_timestamp()'

export type NewUpload = Pick<UploadRow, 'id' | 'desktopId' | 'path' | 'mode' | 'owner' | 'length'> & { orgId: string }

export async function insert(db: Db, upload: NewUpload, forSecs: number): Promise<UploadRow> {
  const { rows } = await db.query<UploadRow>(
    `insert into uploads (id, org_id, desktop_id, path, mode, owner, length, expires_at)
     values ($1, $2, $3, $4, $5, $6, $7, clock_timestamp() + $8 * interval '1 second') returning ${columns}`,
    [upload.id, upload.orgId, upload.desktopId, upload.path, upload.mode, upload.owner, upload.length, forSecs],
  )
  return rows[0]!
}

/** Undefined if there is none, or it has expired. */
export async function find(db: Db, orgId: string, desktopId: string, id: string): Promise<UploadRow | undefined> {
  const { rows } = await db.query<UploadRow>(
    `select ${columns} from uploads where id = $1 and desktop_id = $2 and org_id = $3 and ${isLive}`,
    [id, desktopId, orgId],
  )
  return rows[0]
}

/** Those of the desktop that are not complete. */
export async function countUnfinished(db: Db, desktopId: string): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `select count(*)::int as count from uploads where desktop_id = $1 and state <> 'complete'`,
    [desktopId],
  )
  return rows[0]!.count
}

/** Notes that the file is about to be placed with this length. False if the length, or the state, does not allow it. */
export async function startPlacing(db: Db, id: string, length: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `update uploads set state = 'placing', length = $2
     where id = $1 and state in ('open', 'placing') and (length is null or length = $2)`,
    [id, length],
  )
  return rowCount === 1
}

/** The file was not placed: more may come. */
export async function reopen(db: Db, id: string, length: number | null): Promise<void> {
  await db.query(`update uploads set state = 'open', length = $2 where id = $1 and state = 'placing'`, [id, length])
}

export async function complete(db: Db, id: string): Promise<void> {
  await db.query(`update uploads set state = 'complete' where id = $1 and state = 'placing'`, [id])
}

/** It counts as expired from now on, and its file is removed when the guest can be reached. */
export async function expire(db: Db, id: string): Promise<void> {
  await db.query('update uploads set expires_at = clock_timestamp() where id = $1', [id])
}

export async function remove(db: Db, id: string): Promise<void> {
  await db.query('delete from uploads where id = $1', [id])
}

export interface ExpiredUpload extends UploadRow {
  generation: number
  hostId: string
}

/** Deletes those that leave nothing in a guest: complete ones that have expired, and all of desktops that are gone. */
export async function removeSettled(db: Db): Promise<void> {
  await db.query(
    `delete from uploads u using desktops d where d.id = u.desktop_id
       and ((u.expires_at <= clock_timestamp() and u.state = 'complete') or d.state in ('destroyed', 'failed'))`,
  )
}

/**
 * Unfinished uploads whose file can be removed now: their desktops are awake on one of these hosts. In random order, so that what
 * stays is not always first.
 */
export async function removable(
  db: Db,
  { limit, able, except }: { limit: number; able: readonly string[]; except: readonly string[] },
): Promise<ExpiredUpload[]> {
  const { rows } = await db.query<ExpiredUpload>(
    `select u.id, u.desktop_id as "desktopId", u.path, u.mode, u.owner, u.length, u.state, u.expires_at as "expiresAt",
       d.generation, d.host_id as "hostId"
     from uploads u join desktops d on d.id = u.desktop_id
     where u.expires_at <= clock_timestamp() and u.state <> 'complete' and d.state = 'awake' and d.host_id = any($2)
       and u.desktop_id <> all($3)
     order by random() limit $1`,
    [limit, able, except],
  )
  return rows
}

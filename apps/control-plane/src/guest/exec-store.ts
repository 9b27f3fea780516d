// The table of execs: which ids and keys were used, so that each starts once. Their states are their guests'.
import { keepNewest } from '../db/newest.ts'
import type { Db } from '../db/pool.ts'

export interface ExecRow {
  id: string
  fingerprint: Buffer | null
  ageMs: number
  startedAt: Date | null
  removedAt: Date | null
}

export interface NewExec {
  id: string
  desktopId: string
  key: string | null
  fingerprint: Buffer | null
}

const columns = `id, fingerprint, (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as "ageMs",
  started_at as "startedAt", removed_at as "removedAt"`

/** The new row, or the one that has used the key of this desktop. Waits for a concurrent request with the same key. */
export async function insert(db: Db, { id, desktopId, key, fingerprint }: NewExec): Promise<ExecRow> {
  const inserted = await db.query<ExecRow>(
    `insert into execs (id, desktop_id, idempotency_key, fingerprint) values ($1, $2, $3, $4)
     on conflict (desktop_id, idempotency_key) where idempotency_key is not null do nothing returning ${columns}`,
    [id, desktopId, key, fingerprint],
  )
  if (inserted.rows[0]) return inserted.rows[0]
  const earlier = await db.query<ExecRow>(
    `select ${columns} from execs where desktop_id = $1 and idempotency_key = $2`,
    [desktopId, key],
  )
  return earlier.rows[0]!
}

/** False if it was marked before. */
export async function markStarted(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    'update execs set started_at = clock_timestamp() where id = $1 and started_at is null',
    [id],
  )
  return rowCount === 1
}

export async function markRemoved(db: Db, desktopId: string, id: string): Promise<void> {
  await db.query(
    'update execs set removed_at = clock_timestamp() where id = $1 and desktop_id = $2 and removed_at is null',
    [id, desktopId],
  )
}

const prunedAtOnce = 5_000
/** Kept for each desktop: ten times as many as its guest keeps, and all of the last hour, whose start may still be repeated. */
const most = 10_000

/** Deletes old rows, and those of a desktop that has too many; returns how many. A key that is used again after that starts another exec. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from execs where id in (
       select id from execs where created_at < now() - make_interval(days => $1) order by created_at limit ${prunedAtOnce})`,
    [days],
  )
  const settled = `created_at < now() - interval '1 hour'`
  return (rowCount ?? 0) + (await keepNewest(db, { table: 'execs', of: 'desktop_id', most, settled }))
}

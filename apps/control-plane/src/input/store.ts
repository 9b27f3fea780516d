// The table of batches that have an Idempotency-Key. No other module writes it.
import type { InputJson } from '@dormouse/contract'
import { keepNewest } from '../db/newest.ts'
import type { Db } from '../db/pool.ts'

export type BatchState = 'running' | InputJson['outcome']

export interface BatchRow {
  id: string
  fingerprint: Buffer
  state: BatchState
  result: InputJson | null
  /** It runs, and its replica is alive as far as is known. By the database's clock. */
  isAlive: boolean
}

interface BatchKey {
  desktopId: string
  key: string
}

/** How long a batch counts as running without a sign of its replica. */
const aliveSecs = 15
const aliveFrom = `clock_timestamp() + interval '${aliveSecs} s'`
const columns = `id, fingerprint, state, result, state = 'running' and alive_until > clock_timestamp() as "isAlive"`

/** Whether this request is the first with its key. From then on no other one begins. */
export async function insert(
  db: Db,
  { desktopId, key }: BatchKey,
  batch: { id: string; fingerprint: Buffer; requestedBy: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `insert into input_batches (desktop_id, idempotency_key, id, fingerprint, requested_by, state, alive_until)
     values ($1, $2, $3, $4, $5, 'running', ${aliveFrom}) on conflict do nothing`,
    [desktopId, key, batch.id, batch.fingerprint, batch.requestedBy],
  )
  return rowCount === 1
}

export async function find(db: Db, { desktopId, key }: BatchKey): Promise<BatchRow | undefined> {
  const { rows } = await db.query<BatchRow>(
    `select ${columns} from input_batches where desktop_id = $1 and idempotency_key = $2`,
    [desktopId, key],
  )
  return rows[0]
}

/** Does nothing if another replica has found that its outcome is unknown. */
export async function settle(db: Db, id: string, { desktopId, key }: BatchKey, result: InputJson): Promise<void> {
  await db.query(
    `update input_batches set state = $4, result = $5
     where desktop_id = $1 and idempotency_key = $2 and id = $3 and state = 'running'`,
    [desktopId, key, id, result.outcome, result],
  )
}

/** Nothing was done: the key may be used again. */
export async function remove(db: Db, id: string, { desktopId, key }: BatchKey): Promise<void> {
  await db.query('delete from input_batches where desktop_id = $1 and idempotency_key = $2 and id = $3', [
    desktopId,
    key,
    id,
  ])
}

/** A batch whose replica gives no sign any more will never settle. */
export async function giveUp(db: Db, { desktopId, key }: BatchKey): Promise<void> {
  await db.query(
    `update input_batches set state = 'unknown'
     where desktop_id = $1 and idempotency_key = $2 and state = 'running' and alive_until <= clock_timestamp()`,
    [desktopId, key],
  )
}

/** Renews the rows of batches that run on this replica. */
export async function renew(db: Db, ids: readonly string[]): Promise<void> {
  await db.query(`update input_batches set alive_until = ${aliveFrom} where id = any($1) and state = 'running'`, [ids])
}

/** Kept for each desktop. */
const most = 10_000

/** Deletes old batches, and those of a desktop that has too many; returns how many. Their keys can be used again from then on. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from input_batches where (desktop_id, idempotency_key) in (
       select desktop_id, idempotency_key from input_batches
       where created_at < now() - $1 * interval '1 day' order by created_at limit 5000)`,
    [days],
  )
  const settled = `state <> 'running'`
  return (rowCount ?? 0) + (await keepNewest(db, { table: 'input_batches', of: 'desktop_id', most, settled }))
}

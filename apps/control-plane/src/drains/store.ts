// The tables of drains: one row for each, and one for each desktop that it found on its host.
import type { DrainAction, DrainAwake, DrainReason, DrainSleeping, DrainState, DrainStatus } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface DrainRow {
  id: string
  hostId: string
  state: Exclude<DrainState, 'planned'>
  sleeping: DrainSleeping
  awake: DrainAwake
  concurrency: number
  graceSecs: number
  deadlineSecs: number
  createdAt: Date
  settledAt: Date | null
  /** Its deadline has passed, by the database's clock. */
  late: boolean
  /** The database's clock. */
  now: Date
}

export interface DrainedDesktop {
  desktopId: string
  status: DrainStatus
  action: DrainAction
  operationId: string | null
  tries: number
  failures: number
  cold: boolean
  hibernated: boolean
  retryAt: Date | null
  busySince: Date | null
  reason: DrainReason | null
}

export type NewDrain = Pick<
  DrainRow,
  'id' | 'hostId' | 'sleeping' | 'awake' | 'concurrency' | 'graceSecs' | 'deadlineSecs'
>

const columns = `id, host_id as "hostId", state, sleeping, awake, concurrency, grace_secs as "graceSecs",
  deadline_secs as "deadlineSecs", created_at as "createdAt", settled_at as "settledAt",
  created_at + deadline_secs * interval '1 second' < clock_timestamp() as late, clock_timestamp() as now`

export async function insert(db: Db, drain: NewDrain): Promise<void> {
  await db.query(
    `insert into drains (id, host_id, state, sleeping, awake, concurrency, grace_secs, deadline_secs)
     values ($1, $2, 'running', $3, $4, $5, $6, $7)`,
    [drain.id, drain.hostId, drain.sleeping, drain.awake, drain.concurrency, drain.graceSecs, drain.deadlineSecs],
  )
}

export async function find(db: Db, id: string): Promise<DrainRow | undefined> {
  const { rows } = await db.query<DrainRow>(`select ${columns} from drains where id = $1`, [id])
  return rows[0]
}

/** The host's drain that has not settled. */
export async function liveOf(db: Db, hostId: string): Promise<DrainRow | undefined> {
  const { rows } = await db.query<DrainRow>(`select ${columns} from drains where host_id = $1 and settled_at is null`, [
    hostId,
  ])
  return rows[0]
}

/** All that have not settled. */
export async function liveIds(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'drains-live',
    text: 'select id from drains where settled_at is null order by id',
  })
  return rows.map(({ id }) => id)
}

/** Requests the drain's end; false if it has settled. */
export async function cancel(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(`update drains set state = 'cancelling' where id = $1 and settled_at is null`, [
    id,
  ])
  return rowCount === 1
}

/** Settles it, if it is still in the state that the outcome was judged in. */
export async function settle(db: Db, { id, state }: DrainRow, outcome: DrainRow['state']): Promise<boolean> {
  const { rowCount } = await db.query(
    `update drains set state = $3, settled_at = clock_timestamp() where id = $1 and state = $2 and settled_at is null`,
    [id, state, outcome],
  )
  return rowCount === 1
}

export async function desktopsOf(db: Db, drainId: string): Promise<DrainedDesktop[]> {
  const { rows } = await db.query<DrainedDesktop>(
    `select desktop_id as "desktopId", status, action, operation_id as "operationId", tries, failures, cold, hibernated,
       retry_at as "retryAt", busy_since as "busySince", reason
     from drain_desktops where drain_id = $1 order by desktop_id`,
    [drainId],
  )
  return rows
}

/** Stores what is known of these desktops now. */
export async function put(db: Db, drainId: string, desktops: DrainedDesktop[]): Promise<void> {
  if (desktops.length === 0) return
  await db.query(
    `insert into drain_desktops (drain_id, desktop_id, status, action, operation_id, tries, failures, cold, hibernated,
       retry_at, busy_since, reason)
     select $1, "desktopId", status, action, "operationId", tries, failures, cold, hibernated, "retryAt", "busySince", reason
     from jsonb_to_recordset($2::jsonb) as said("desktopId" uuid, status text, action text, "operationId" uuid, tries int,
       failures int, cold boolean, hibernated boolean, "retryAt" timestamptz, "busySince" timestamptz, reason jsonb)
     on conflict (drain_id, desktop_id) do update set status = excluded.status, action = excluded.action,
       operation_id = excluded.operation_id, tries = excluded.tries, failures = excluded.failures, cold = excluded.cold,
       hibernated = excluded.hibernated, retry_at = excluded.retry_at, busy_since = excluded.busy_since,
       reason = excluded.reason`,
    [drainId, JSON.stringify(desktops)],
  )
}

/** Deletes drains that settled long ago; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(`delete from drains where settled_at < now() - $1 * interval '1 day'`, [days])
  return rowCount ?? 0
}

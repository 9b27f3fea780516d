// The tables of upgrades: one row for each, and one for each host of it.
import type { UpgradeHostStatus, UpgradeState } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface UpgradeRow {
  id: string
  state: UpgradeState
  version: string | null
  batch: number
  timeoutSecs: number
  createdAt: Date
  settledAt: Date | null
}

export type NewUpgrade = Pick<UpgradeRow, 'id' | 'version' | 'batch' | 'timeoutSecs'>

export interface UpgradedHost {
  hostId: string
  hostName: string
  status: UpgradeHostStatus
  fromVersion: string | null
  version: string | null
  reason: string | null
  /** Desktops that the host did not have as the database says when its turn came. */
  missingBefore: string[]
  /** Its time has passed, by the database's clock. */
  late: boolean
}

const columns = `id, state, version, batch, timeout_secs as "timeoutSecs", created_at as "createdAt",
  settled_at as "settledAt"`

export async function insert(db: Db, { id, version, batch, timeoutSecs }: NewUpgrade): Promise<void> {
  await db.query(`insert into upgrades (id, state, version, batch, timeout_secs) values ($1, 'running', $2, $3, $4)`, [
    id,
    version,
    batch,
    timeoutSecs,
  ])
}

export async function find(db: Db, id: string): Promise<UpgradeRow | undefined> {
  const { rows } = await db.query<UpgradeRow>(`select ${columns} from upgrades where id = $1`, [id])
  return rows[0]
}

/** The one that has not settled. */
export async function live(db: Db): Promise<UpgradeRow | undefined> {
  const { rows } = await db.query<UpgradeRow>({
    name: 'upgrades-live',
    text: `select ${columns} from upgrades where settled_at is null`,
  })
  return rows[0]
}

/** The newest ones, the latest first. */
export async function list(db: Db, limit: number): Promise<UpgradeRow[]> {
  const { rows } = await db.query<UpgradeRow>(`select ${columns} from upgrades order by id desc limit $1`, [limit])
  return rows
}

/** Requests its end; false if it has settled. */
export async function cancel(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(`update upgrades set state = 'cancelling' where id = $1 and settled_at is null`, [
    id,
  ])
  return rowCount === 1
}

/** Settles it, if it is still in the state that the outcome was judged in. */
export async function settle(db: Db, { id, state }: UpgradeRow, outcome: UpgradeState): Promise<void> {
  await db.query(
    `update upgrades set state = $3, settled_at = clock_timestamp() where id = $1 and state = $2 and settled_at is null`,
    [id, state, outcome],
  )
}

/** In the order in which they are upgraded. */
export async function hostsOf(db: Db, id: string): Promise<UpgradedHost[]> {
  const { rows } = await db.query<UpgradedHost>(
    `select host_id as "hostId", hosts.name as "hostName", status, from_version as "fromVersion", one.version, reason,
       missing_before as "missingBefore",
       coalesce(began_at + timeout_secs * interval '1 second' < clock_timestamp(), false) as late
     from upgrade_hosts one join upgrades on upgrades.id = upgrade_id join hosts on hosts.id = host_id
     where upgrade_id = $1 order by host_id`,
    [id],
  )
  return rows
}

/** Stores what is known of these hosts now. The time of one begins when it is worked on first. */
export async function put(db: Db, id: string, hosts: UpgradedHost[]): Promise<void> {
  await db.query(
    `insert into upgrade_hosts (upgrade_id, host_id, status, from_version, version, reason, missing_before)
     select $1, "hostId", status, "fromVersion", version, reason, "missingBefore"
     from jsonb_to_recordset($2::jsonb) as said("hostId" uuid, status text, "fromVersion" text, version text, reason text,
       "missingBefore" uuid[])
     on conflict (upgrade_id, host_id) do update set status = excluded.status, version = excluded.version,
       reason = excluded.reason, missing_before = excluded.missing_before,
       began_at = coalesce(upgrade_hosts.began_at, case when excluded.status = 'working' then clock_timestamp() end)`,
    [id, JSON.stringify(hosts)],
  )
}

/** Deletes upgrades that settled long ago; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(`delete from upgrades where settled_at < now() - $1 * interval '1 day'`, [days])
  return rowCount ?? 0
}

// Which hosts are unreachable, lost or removed, in the table of hosts.
import type { Db } from '../db/pool.ts'
import { lockPlacements, silentAfterMs } from './store.ts'

export interface LostHost {
  lostAt: Date
  /** When it last proved that anything on it lived; null if it never did. */
  heardAt: Date | null
  /** It was lost before. */
  before: boolean
}

/**
 * Declares the host lost. Undefined if it sent a heartbeat lately, or was removed. Placements wait for this and then skip
 * the host.
 */
export async function lose(db: Db, id: string): Promise<LostHost | undefined> {
  await lockPlacements(db, id)
  const { rowCount } = await db.query(
    `update hosts set lost_at = now() where id = $1 and removed_at is null and lost_at is null
       and coalesce(last_heartbeat_at < now() - interval '${silentAfterMs} milliseconds', true)`,
    [id],
  )
  const { rows } = await db.query<Omit<LostHost, 'before'>>(
    `select lost_at as "lostAt", last_heartbeat_at as "heardAt" from hosts
     where id = $1 and removed_at is null and lost_at is not null`,
    [id],
  )
  return rows[0] && { ...rows[0], before: rowCount === 0 }
}

/** Takes a lost host back into service; false if it was not lost, is removed, or sent no heartbeat lately. */
export async function takeBack(db: Db, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update hosts set lost_at = null where id = $1 and removed_at is null and lost_at is not null
       and last_heartbeat_at >= now() - interval '${silentAfterMs} milliseconds'`,
    [id],
  )
  return rowCount === 1
}

export async function isRemoved(db: Db, id: string): Promise<boolean> {
  return (await goneAmong(db, [id])).some(({ removed }) => removed)
}

/** Those of the hosts that were removed, or lost. */
export async function goneAmong(db: Db, ids: string[]): Promise<{ id: string; removed: boolean }[]> {
  const { rows } = await db.query<{ id: string; removed: boolean }>({
    name: 'hosts-gone-among',
    text: `select id, removed_at is not null as removed from hosts
           where id = any($1) and (removed_at is not null or lost_at is not null)`,
    values: [ids],
  })
  return rows
}

/** Notes the hosts that have become unreachable since the last time: silence writes nothing by itself. */
export async function noteUnreachable(db: Db): Promise<void> {
  await db.query({
    name: 'hosts-note-unreachable',
    text: `update hosts h set unreachable_at = clock_timestamp() from (
             select id from hosts where removed_at is null
               and last_heartbeat_at < now() - interval '${silentAfterMs} milliseconds'
               and (unreachable_at is null or unreachable_at < last_heartbeat_at)
             order by id for no key update skip locked) silent
           where h.id = silent.id`,
  })
}

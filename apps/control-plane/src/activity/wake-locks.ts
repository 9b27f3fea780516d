// The table of wake locks: named reasons why a desktop must stay awake, each with an end. The caller has locked the desktop's row.
import type { WakeLockJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface WakeLock {
  name: string
  reason: string
  createdAt: Date
  expiresAt: Date
}

const isHeld = 'expires_at > clock_timestamp()'
const columns = `name, reason, created_at as "createdAt", expires_at as "expiresAt"`

/** Creates a lock, or renews the one with that name. */
export async function put(
  db: Db,
  desktopId: string,
  lock: { name: string; reason: string; forSecs: number },
): Promise<WakeLock> {
  await db.query(`delete from wake_locks where desktop_id = $1 and not ${isHeld}`, [desktopId])
  const { rows } = await db.query<WakeLock>(
    `insert into wake_locks (desktop_id, name, reason, created_at, expires_at)
     values ($1, $2, $3, clock_timestamp(), clock_timestamp() + $4 * interval '1 second')
     on conflict (desktop_id, name) do update set reason = excluded.reason, expires_at = excluded.expires_at
     returning ${columns}`,
    [desktopId, lock.name, lock.reason, lock.forSecs],
  )
  await noteEnd(db, desktopId)
  return rows[0]!
}

/** Does nothing if there is none. */
export async function remove(db: Db, desktopId: string, name: string): Promise<void> {
  await db.query('delete from wake_locks where desktop_id = $1 and name = $2', [desktopId, name])
  await noteEnd(db, desktopId)
}

/** Records until when the remaining locks keep the desktop awake: until now if none is left. */
async function noteEnd(db: Db, desktopId: string): Promise<void> {
  await db.query(
    `insert into desktop_activity (desktop_id, class, at)
     values ($1, 'wake_lock', greatest(clock_timestamp(), (select max(expires_at) from wake_locks where desktop_id = $1)))
     on conflict (desktop_id, class) do update set at = excluded.at`,
    [desktopId],
  )
}

/** The current locks of each desktop, ordered by their end. */
export async function heldOf(db: Db, desktopIds: readonly string[]): Promise<Map<string, WakeLock[]>> {
  const { rows } = await db.query<WakeLock & { desktopId: string }>(
    `select desktop_id as "desktopId", ${columns} from wake_locks where desktop_id = any($1) and ${isHeld}
     order by expires_at, name`,
    [desktopIds],
  )
  return Map.groupBy(rows, ({ desktopId }) => desktopId)
}

/** Deletes expired locks; returns how many. */
export async function prune(db: Db): Promise<number> {
  const { rowCount } = await db.query(`delete from wake_locks where not ${isHeld}`)
  return rowCount ?? 0
}

export const wakeLockToJson = ({ name, reason, createdAt, expiresAt }: WakeLock): WakeLockJson => ({
  name,
  reason,
  created_at: createdAt.toISOString(),
  expires_at: expiresAt.toISOString(),
})

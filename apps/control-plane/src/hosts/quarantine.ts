// The columns of quarantined hosts. A quarantine ends by itself.
import type { Db } from '../db/pool.ts'

export const isQuarantined = 'coalesce(h.quarantined_until > now(), false)'

export async function quarantine(
  db: Db,
  hostId: string,
  { ms, reason }: { ms: number; reason: string },
): Promise<void> {
  await db.query(
    `update hosts set quarantined_until = now() + $2 * interval '1 millisecond', quarantine_reason = $3
     where id = $1 and removed_at is null`,
    [hostId, ms, reason.slice(0, 500)],
  )
}

/** False if it was not quarantined. */
export async function endQuarantine(db: Db, hostId: string): Promise<boolean> {
  const { rows } = await db.query<{ was: boolean }>(
    `update hosts h set quarantined_until = null, quarantine_reason = null
     from (select id, ${isQuarantined} as was from hosts h where id = $1 and quarantined_until is not null for update) old
     where h.id = old.id returning old.was`,
    [hostId],
  )
  return rows[0]?.was ?? false
}

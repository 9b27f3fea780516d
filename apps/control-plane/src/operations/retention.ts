// Prunes operations that settled long ago.
import type { Db } from '../db/pool.ts'

const pieceRows = 5_000

/**
 * Deletes operations without a key to which no interval of the ledger refers. Others keep their id, key, fingerprint and
 * outcome, and the rest is emptied. Returns how many rows it handled; each is handled once.
 */
export async function prune(db: Db, days: number): Promise<number> {
  const { rows } = await db.query<{ count: number }>(
    `with old as (
       select o.id, o.idempotency_key is null and not exists (
         select 1 from usage_intervals u
         where u.desktop_id = o.desktop_id and (u.opened_by = o.id or u.closed_by = o.id)) as nameless
       from operations o where o.settled_at < now() - $1 * interval '1 day' and o.input <> '{}'
       order by o.settled_at limit ${pieceRows}),
     gone as (delete from operations o using old where o.id = old.id and old.nameless),
     kept as (update operations o set input = '{}', findings = '{}', failure = null, request_id = null,
                cause = null, timeline = '[]'
              from old where o.id = old.id and not old.nameless)
     select count(*)::int as count from old`,
    [days],
  )
  return rows[0]!.count
}

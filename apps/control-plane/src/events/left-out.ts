// Events above their organisation's budget are not logged, only counted (`db/migrations/0047-budgets.sql`). Once for each half
// minute in which that happened, one event says how many.
import type { Db } from '../db/pool.ts'

/** Of an organisation's budget; the leader notes them a few seconds later. */
const noteAfterSecs = 30

/** Logs what was left out; returns for how many organisations. */
export async function noteLeftOut(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `with over as (
       select org_id, left_out, left_out_since from event_budgets
       where left_out > 0 and left_out_since < clock_timestamp() - interval '${noteAfterSecs} seconds'
       order by org_id for update),
     cleared as (
       update event_budgets b set left_out = 0, left_out_since = null from over where b.org_id = over.org_id)
     insert into events (org_id, type, data)
     select org_id, 'events.left_out', jsonb_build_object('count', left_out, 'since', left_out_since) from over`,
  )
  return rowCount ?? 0
}

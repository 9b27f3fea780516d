// Events above their organisation's budget are not logged, only counted (`may_log_event`). Once for each half minute in which
// that happened, one event has their number.
import type { Db } from '../db/pool.ts'

/** Logs what was left out; returns for how many organisations. */
export async function noteLeftOut(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `insert into events (org_id, type, data)
     select org_id, 'events.left_out', jsonb_build_object('count', count, 'since', since) from take_left_out('events')`,
  )
  return rowCount ?? 0
}

// Events of what changes no row that a trigger watches: the leader notes them, in the transaction that records them as noted.
import type { EventType } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

/** Logs an event of a desktop; if it is counted, within its organisation's budget of events. The caller has locked the desktop. */
export async function noteOfDesktop(
  db: Db,
  desktopId: string,
  type: EventType,
  data: Record<string, unknown>,
  isCounted: boolean,
): Promise<void> {
  await db.query({
    name: 'events-note-of-desktop',
    text: `insert into events (org_id, desktop_id, host_id, type, data)
           select org_id, id, host_id, $2, $3 from desktops where id = $1 and (not $4 or may_log_event(org_id))`,
    values: [desktopId, type, JSON.stringify(data), isCounted],
  })
}

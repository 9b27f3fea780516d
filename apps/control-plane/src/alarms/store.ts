// The table of alarms: current problems.
import type { Db } from '../db/pool.ts'

export interface AlarmRow {
  kind: string
  scope: string
  subject: string
  hostId: string | null
  desktopId: string | null
  what: string
  since: Date
}

const columns = 'kind, scope, subject, host_id as "hostId", desktop_id as "desktopId", what, since'

/** Oldest first. Alarms of removed hosts are left out. */
export async function list(db: Db): Promise<AlarmRow[]> {
  const { rows } = await db.query<AlarmRow>(
    `select ${columns} from alarms where host_id is null
       or not exists (select 1 from hosts where hosts.id = alarms.host_id and hosts.removed_at is not null)
     order by since, kind, subject`,
  )
  return rows
}

export async function insert(db: Db, rows: Omit<AlarmRow, 'since'>[]): Promise<void> {
  await db.query(
    `insert into alarms (kind, scope, subject, host_id, desktop_id, what)
     select kind, scope, subject, "hostId", "desktopId", what from jsonb_to_recordset($1::jsonb)
       as made(kind text, scope text, subject text, "hostId" uuid, "desktopId" uuid, what text)
     on conflict do nothing`,
    [JSON.stringify(rows)],
  )
}

export async function remove(db: Db, kind: string, scope: string, subjects: string[]): Promise<void> {
  await db.query('delete from alarms where kind = $1 and scope = $2 and subject = any($3)', [kind, scope, subjects])
}

// The table of activity: when each desktop was last used, by class. Knows no policy.
import type { ActivityClass } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

/** `wake_lock`: the time until which wake locks keep the desktop awake; may be in the future. */
export type StoredClass = ActivityClass | 'wake_lock'

export interface ActivityNote {
  desktopId: string
  class: StoredClass
  ageMs: number
}

/** What a host reports counts for its own desktops only. */
export interface HostNote extends ActivityNote {
  hostId: string
}

const keepsLatest = `on conflict (desktop_id, class) do update set at = greatest(desktop_activity.at, excluded.at)`

/** Any replica may write. A stored time never decreases, so the order of writes does not matter. */
export async function note(db: Db, notes: readonly ActivityNote[]): Promise<void> {
  await db.query(
    `insert into desktop_activity (desktop_id, class, at)
     select desktop, class, max(clock_timestamp() - age * interval '1 millisecond')
     from unnest($1::uuid[], $2::text[], $3::float8[]) noted (desktop, class, age) group by 1, 2 order by 1, 2
     ${keepsLatest}`,
    [notes.map(({ desktopId }) => desktopId), notes.map((one) => one.class), notes.map(({ ageMs }) => ageMs)],
  )
}

export async function noteOfHosts(db: Db, notes: readonly HostNote[]): Promise<void> {
  await db.query(
    `insert into desktop_activity (desktop_id, class, at)
     select d.id, class, clock_timestamp() - age * interval '1 millisecond'
     from unnest($1::uuid[], $2::uuid[], $3::text[], $4::float8[]) noted (host, desktop, class, age)
       join desktops d on d.id = noted.desktop and d.host_id = noted.host order by 1, 2
     ${keepsLatest}`,
    [
      notes.map(({ hostId }) => hostId),
      notes.map(({ desktopId }) => desktopId),
      notes.map((one) => one.class),
      notes.map(({ ageMs }) => ageMs),
    ],
  )
}

/** When the desktop was last used in that way; undefined if no use is recorded. */
export async function lastOf(db: Db, desktopId: string, what: StoredClass): Promise<Date | undefined> {
  const { rows } = await db.query<{ at: Date }>(
    'select at from desktop_activity where desktop_id = $1 and class = $2',
    [desktopId, what],
  )
  return rows[0]?.at
}

/** Deletes the activity of destroyed desktops; returns the number of rows. */
export async function prune(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from desktop_activity a using desktops d where d.id = a.desktop_id and d.state = 'destroyed'`,
  )
  return rowCount ?? 0
}

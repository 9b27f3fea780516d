// A desktop's settings for automatic hibernation, and when to check the desktop next. Decides nothing.
import type { ChangeDesktopBody } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import type { Assignment } from './store.ts'

/** What a PATCH changes of them. Idle time counts from then on. */
export function idleChanges({ idle_timeout_secs: timeoutSecs, idle_policy: policy }: ChangeDesktopBody): Assignment[] {
  if (timeoutSecs === undefined && policy === undefined) return []
  return [
    ...(timeoutSecs === undefined ? [] : [{ column: 'idle_timeout_secs', value: timeoutSecs }]),
    ...(policy === undefined ? [] : [{ column: 'idle_policy', value: policy }]),
    { column: 'idle_changed_at', as: 'clock_timestamp()' },
    { column: 'idle_look_at', as: 'clock_timestamp()' },
  ]
}

/** Desktops that may be due, the earliest first. */
export async function dueIds(db: Db, limit: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>({
    name: 'desktops-idle-due',
    text: `select id from desktops
           where state = 'awake' and idle_timeout_secs > 0 and idle_look_at <= now() order by idle_look_at limit $1`,
    values: [limit],
  })
  return rows.map(({ id }) => id)
}

/** Awake desktops of a host that may hibernate automatically. */
export async function idleOn(db: Db, hostId: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from desktops where host_id = $1 and state = 'awake' and idle_timeout_secs > 0`,
    [hostId],
  )
  return rows.map(({ id }) => id)
}

/** Sets the next check of those of these desktops that are due. A desktop that another transaction has locked stays due. */
export async function lookAgain(db: Db, looks: readonly { id: string; inMs: number }[]): Promise<void> {
  if (looks.length === 0) return
  await db.query({
    name: 'desktops-idle-look-again',
    text: `with free as (
             select id from desktops where id = any($1) and state = 'awake' and idle_look_at <= clock_timestamp()
             order by id for no key update skip locked)
           update desktops d set idle_look_at = clock_timestamp() + look.in_ms * interval '1 millisecond'
           from unnest($1::uuid[], $2::float8[]) look (id, in_ms), free where d.id = look.id and free.id = d.id`,
    values: [looks.map(({ id }) => id), looks.map(({ inMs }) => inMs)],
  })
}

/** Sets the next check, whatever was set before. */
export async function lookIn(db: Db, id: string, inMs: number): Promise<void> {
  await db.query(`update desktops set idle_look_at = clock_timestamp() + $2 * interval '1 millisecond' where id = $1`, [
    id,
    inMs,
  ])
}

// Reads all that a desktop's idleness is judged by. Writes nothing.
import { type ActivityClass, activityClass, type DesktopState, defaultIdlePolicy } from '@dormouse/contract'
import type { HostReports } from '../activity/host-reports.ts'
import type { WakeLock } from '../activity/wake-locks.ts'
import type { Db } from '../db/pool.ts'
import type { Facts } from './judge.ts'

export interface IdleRow {
  id: string
  orgId: string
  state: DesktopState
  generation: number
  hostId: string | null
  timeoutMs: number
  policy: readonly ActivityClass[]
  busy: boolean
  ages: Facts['ages']
  locks: (WakeLock & { leftMs: number })[]
  wokeAgoMs: number | null
  changedAgoMs: number
  /** Whether the time at which to look at it has come. */
  isDue: boolean
  /** The database's clock. */
  now: Date
}

const ago = (time: string) => `(extract(epoch from clock_timestamp() - ${time}) * 1000)::float8`

/** Reads those of these desktops that exist. In a transaction that has locked them, nothing changes what it reads. */
export async function readIdle(db: Db, ids: readonly string[]): Promise<IdleRow[]> {
  interface Read extends Omit<IdleRow, 'policy' | 'locks' | 'timeoutMs'> {
    timeoutSecs: number
    policy: string[] | null
    locks: { name: string; reason: string; createdAt: string; expiresAt: string; leftMs: number }[] | null
  }
  const { rows } = await db.query<Read>({
    name: 'idle-read',
    text: `select d.id, d.org_id as "orgId", d.state, d.generation, d.host_id as "hostId",
             d.idle_timeout_secs as "timeoutSecs", d.idle_policy as policy,
             exists (select 1 from operations o where o.desktop_id = d.id and o.state in ('pending', 'running')) as busy,
             coalesce((select json_object_agg(a.class, ${ago('a.at')}) from desktop_activity a where a.desktop_id = d.id),
               '{}') as ages,
             (select json_agg(json_build_object('name', l.name, 'reason', l.reason, 'createdAt', l.created_at,
                'expiresAt', l.expires_at, 'leftMs', -${ago('l.expires_at')}) order by l.expires_at, l.name)
              from wake_locks l where l.desktop_id = d.id and l.expires_at > clock_timestamp()) as locks,
             ${ago('greatest(g.started_at, d.schedule_woke_at)')} as "wokeAgoMs",
             ${ago('greatest(i.idle_from, d.idle_changed_at)')} as "changedAgoMs",
             d.idle_look_at <= clock_timestamp() as "isDue", clock_timestamp() as now
           from installation i, desktops d left join generations g on g.id = d.current_generation_id
           where d.id = any($1)`,
    values: [ids],
  })
  return rows.map(({ timeoutSecs, policy, locks, ...row }) => ({
    ...row,
    timeoutMs: timeoutSecs * 1_000,
    policy: policyOf(policy),
    locks: (locks ?? []).map((lock) => ({
      ...lock,
      createdAt: new Date(lock.createdAt),
      expiresAt: new Date(lock.expiresAt),
    })),
  }))
}

/** A class of a later release is not known here. */
const policyOf = (stored: string[] | null): readonly ActivityClass[] =>
  stored ? activityClass.options.filter((one) => stored.includes(one)) : defaultIdlePolicy

/** With what its host has reported to this replica. */
export const factsOf = (row: IdleRow, { reports, enabled }: { reports: HostReports; enabled: boolean }): Facts => ({
  ...row,
  enabled,
  seen: row.hostId === null ? undefined : reports.of(row.hostId, row.id, row.generation),
})

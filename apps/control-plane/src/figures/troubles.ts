// What hosts tell of troubles in guests, as events of their desktops. Hosts repeat each for a minute, to every leader.
import type { GuestTrouble } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

const dataOf: Partial<Record<string, (trouble: GuestTrouble) => object>> = {
  out_of_memory: ({ process, kills }) => ({ process, kills }),
  disk_full: ({ where, path }) => ({ where, path }),
}

/** Logs those that are new, of desktops that are this host's own. An agent of a later release may tell of other kinds. */
export async function logTroubles(db: Db, hostId: string, given: readonly GuestTrouble[]): Promise<void> {
  // A host has at most one of each kind for a desktop.
  const troubles = new Map<string, GuestTrouble>()
  for (const one of given) if (Object.hasOwn(dataOf, one.kind)) troubles.set(`${one.desktopId} ${one.kind}`, one)
  const all = [...troubles.values()]
  if (all.length === 0) return
  await db.query({
    name: 'figures-log-troubles',
    text: `with said as (
             select d.id, d.org_id, d.generation, type, at, data
             from unnest($2::uuid[], $3::text[], $4::bigint[], $5::jsonb[]) said (id, type, at, data)
               join desktops d on d.id = said.id and d.host_id = $1 and d.state <> 'destroyed'),
           fresh as (
             insert into desktop_troubles as known (desktop_id, type, host_id, said_at)
             select id, type, $1, at from said order by id, type
             on conflict (desktop_id, type) do update set host_id = excluded.host_id, said_at = excluded.said_at
               where known.host_id <> excluded.host_id or known.said_at < excluded.said_at
             returning desktop_id, type)
           insert into events (org_id, desktop_id, host_id, type, data)
           select org_id, id, $1, said.type, data || jsonb_build_object('generation', generation)
           from said join fresh on fresh.desktop_id = said.id and fresh.type = said.type where may_log_event(org_id)`,
    values: [
      hostId,
      all.map(({ desktopId }) => desktopId),
      all.map(({ kind }) => `desktop.${kind}`),
      all.map(({ at }) => at),
      all.map((one) => JSON.stringify(dataOf[one.kind]!(one))),
    ],
  })
}

/** Deletes what is known of destroyed desktops; returns the number of rows. */
export async function prune(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from desktop_troubles t using desktops d where d.id = t.desktop_id and d.state = 'destroyed'`,
  )
  return rowCount ?? 0
}

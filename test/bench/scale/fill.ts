// Fills the tables of a service with the past of a large installation: desktops that were woken and hibernated many times,
// on hosts that are not linked now. The rows are made in the database, in the shape that the service leaves them.
import { generateKeyPairSync } from 'node:crypto'

export interface Filling {
  desktops: number
  operationsEach: number
}

/** Runs one statement with its parameters. */
type Run = (text: string, values?: unknown[]) => Promise<unknown>

const hosts = 1_000
/** Among which the desktops are divided; one of them is the one that is given. */
const organisations = 50
/** Intervals and audited actions of a desktop; a range costs twenty times what another row does. */
const intervalsEach = 2

/** All desktops are stopped; every fiftieth is that organisation's. Ends with `vacuum analyze`, as time does. */
export async function fill(run: Run, orgId: string, { desktops, operationsEach }: Filling): Promise<void> {
  await fillHosts(run)
  await run(
    `insert into organisations (id, name) select gen_random_uuid(), 'past-' || n from generate_series(2, ${organisations}) n`,
  )
  await run(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs,
                           billing_mode, generation, turn, host_id)
     select gen_random_uuid(), o.id, 'small', 'stopped', 'mini', 1, 512, 10, 1800, 'hourly', $3 / 2, $3, h.id
       from generate_series(1, $2) n
       join (select id, row_number() over (order by id <> $1, id) as at
               from organisations where id = $1 or name like 'past-%') o on o.at = n % ${organisations} + 1
       join (select id, row_number() over (order by id) as at from hosts where last_heartbeat_at is null) h
         on h.at = n % ${hosts} + 1`,
    [orgId, desktops, operationsEach],
  )
  await run(
    `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib)
     select id, host_id, 0, 0, disk_gib from desktops where state = 'stopped'`,
  )
  await run(
    `insert into operations (id, desktop_id, org_id, kind, state, generation, turn, input, step, result, deadline_at,
                             created_at, updated_at, settled_at)
     select gen_random_uuid(), d.id, d.org_id, case n % 2 when 1 then 'wake' else 'hibernate' end, 'succeeded',
            (n + 1) / 2, n, '{}', 4, '{}', t.at, t.at, t.at, t.at
       from desktops d, generate_series(1, $1::int) n, lateral (select now() - n * interval '1 day' / 2 as at) t
      where d.state = 'stopped'`,
    [operationsEach],
  )
  await fillHistory(run, operationsEach)
  await run('vacuum analyze')
}

async function fillHosts(run: Run): Promise<void> {
  const { publicKey } = generateKeyPairSync('ed25519')
  await run(
    `insert into hosts (id, name, public_key, processors, memory_mib, disk_gib, images)
     select gen_random_uuid(), 'past-' || n, $1, 64, 262144, 4096, '{mini}' from generate_series(1, ${hosts}) n`,
    [JSON.stringify(publicKey.export({ format: 'jwk' }))],
  )
}

async function fillHistory(run: Run, operationsEach: number): Promise<void> {
  const ofAll = `from desktops d, generate_series(1, $1::int) n where d.state = 'stopped'`
  await run(
    `insert into generations (id, desktop_id, generation, host_id, started_at, ended_at, end_reason, superseded_at)
     select gen_random_uuid(), d.id, n, d.host_id, now() - n * interval '1 day', now() - n * interval '1 day',
            'hibernated', case when n < $1 then now() - n * interval '1 day' end ${ofAll}`,
    [Math.floor(operationsEach / 2)],
  )
  await run(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, host_id, period, alive_until)
     select d.id, d.org_id, d.tier, d.billing_mode, 'awake', n, d.host_id,
            tstzrange(now() - n * interval '1 day', now() - n * interval '1 day' + interval '1 hour'), now() ${ofAll}`,
    [intervalsEach],
  )
  await run(
    `insert into audit_log (at, actor, action, subject)
     select now() - n * interval '1 day', 'bench', 'desktop.hibernate', d.id::text ${ofAll}`,
    [intervalsEach],
  )
}

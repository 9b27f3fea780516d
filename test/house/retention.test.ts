// Guarantee: what is old is forgotten, piece by piece, and nothing of it that a caller was promised.
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import type { ApiWish } from './parts/api.ts'

/** Everything that happened so far happened so long ago. */
async function age(house: House, days: number): Promise<void> {
  for (const [table, columns] of [
    ['operations', ['created_at', 'settled_at']],
    ['generations', ['started_at', 'ended_at', 'superseded_at']],
    ['host_invites', ['created_at', 'expires_at', 'used_at']],
    ['audit_log', ['at']],
  ] as const)
    await house.database.rows(
      `update ${table} set ${columns.map((column) => `${column} = ${column} - interval '${days} days'`).join(', ')}`,
    )
}

const count = async (house: House, table: string): Promise<number> =>
  (await house.database.rows<{ n: number }>(`select count(*)::int as n from ${table}`))[0]!.n

/** The operations that the ledger names. */
const openings = async (house: House) =>
  (await house.database.rows<{ by: string }>('select opened_by as by from usage_intervals')).map(({ by }) => by)

/** A wake that fails, for want of an image that any host has. */
async function failedWake(house: House, id: string, key?: string): Promise<string> {
  const wish: ApiWish = key ? { headers: { 'idempotency-key': key } } : {}
  const { json } = await house.api('POST', `/v1/desktops/${id}/wake`, wish)
  return (await house.settled(json.id)).id
}

test('old attempts without a key go; a key, its first answer and what was billed stay, and the desktop goes on', async () => {
  await using house = await House.start({ controlPlane: { defaultImage: 'none' } })
  const { retention } = house.replica.parts
  const hopeless = await house.desktop()
  const [nameless, keyed] = [await failedWake(house, hopeless.id), await failedWake(house, hopeless.id, 'kept')]
  const { id } = await house.desktop('hibernated', { image_version: 'mini' })
  await house.remember((await house.ask(id, 'wake')).desktop_id, 'on')
  const billed = (await house.api('GET', `/v1/desktops/${id}/operations`)).json
  const opened = await openings(house)
  const before = await house.operation(keyed)
  await retention.prune()
  expect((await house.api('GET', `/v1/operations/${nameless}`)).status).toBe(200)
  await age(house, 91)
  await house.begin(id, 'hibernate')
  await house.settle()
  await retention.prune()
  await retention.prune()
  expect((await house.api('GET', `/v1/operations/${nameless}`)).status).toBe(404)
  const { settled_at, created_at, ...outcome } = before
  expect(await house.operation(keyed)).toMatchObject(outcome)
  expect([Date.parse(settled_at!) > Date.parse(created_at), outcome.state]).toEqual([true, 'failed'])
  for (const [body, says] of [
    [{}, 'true'],
    [{ discard_memory: true }, 'mismatch'],
  ]) {
    const headers = { 'idempotency-key': 'kept' }
    const again = await house.api('POST', `/v1/desktops/${hopeless.id}/wake`, { headers, body })
    expect([again.status, again.json.id, again.headers['idempotency-replayed']]).toEqual([200, keyed, says])
  }
  const now = (await house.api('GET', `/v1/desktops/${id}/operations`)).json.operations
  expect(now.slice(1).map((one: { id: string }) => one.id)).toEqual(
    billed.operations.map((one: { id: string }) => one.id),
  )
  expect(await openings(house)).toEqual(expect.arrayContaining(opened))
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await house.recall(id)).toEqual({ memory: 'on', disk: 'on' })
})

test('of generations only the latest stays, of invitations none that is spent, of replicas none that is dead', async () => {
  await using house = await House.start()
  const { retention, hosts } = house.replica.parts
  const { id } = await house.desktop('hibernated')
  await house.ask(id, 'wake')
  await house.ask(id, 'hibernate')
  const { current_generation_id } = await house.see(id)
  expect([await count(house, 'generations'), await count(house, 'host_invites')]).toEqual([2, 1])
  await house.database.rows(
    `insert into replicas (id, url, seen_at) values (gen_random_uuid(), 'x', now() - interval '2 days')`,
  )
  await age(house, 91)
  await hosts.invite('young')
  await retention.prune()
  const generations = await house.database.rows<{ id: string }>('select id from generations')
  expect(generations.map((row) => row.id)).toEqual([current_generation_id])
  expect([await count(house, 'host_invites'), await count(house, 'replicas')]).toEqual([1, 1])
})

test('a generation that never ran is forgotten like any other, and not before its time is up', async () => {
  await using house = await House.start({ controlPlane: { defaultImage: 'none' } })
  const { retention } = house.replica.parts
  const { id } = await house.desktop()
  for (let wakes = 0; wakes < 3; wakes++) await failedWake(house, id)
  await age(house, 89)
  await retention.prune()
  expect(await count(house, 'generations')).toBe(3)
  await age(house, 2)
  await retention.prune()
  const generations = await house.database.rows<{ id: string }>('select id from generations')
  expect(generations.map((row) => row.id)).toEqual([(await house.see(id)).current_generation_id])
})

test('the audit log is kept for longer, and then goes too', async () => {
  await using house = await House.start({ hosts: 0 })
  const { retention } = house.replica.parts
  await house.database.rows(`insert into audit_log (actor, action, subject) values ('key:x', 'stream.takeover', 'y')`)
  await age(house, 399)
  await retention.prune()
  expect(await count(house, 'audit_log')).toBe(1)
  await age(house, 2)
  await retention.prune()
  expect(await count(house, 'audit_log')).toBe(0)
})

test('neither what is old nor the lines of one subject are looked for in the whole audit log', async () => {
  await using house = await House.start({ hosts: 0 })
  await house.database.rows(
    `insert into audit_log (at, actor, action, subject)
     select now() - n * interval '1 minute', 'key:x', 'stream.takeover', 's' || n % 100 from generate_series(1, 5000) n`,
  )
  await house.database.rows('analyze audit_log')
  const plan = async (rest: string) => {
    const rows = await house.database.rows<{ 'QUERY PLAN': string }>(`explain select id from audit_log where ${rest}`)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  expect(await plan(`at < now() - interval '400 days' order by at limit 5000`)).toContain('audit_log_at')
  expect(await plan(`subject = 's1' order by id desc limit 100`)).toContain('audit_log_subject')
})

test('where one kind of record cannot be forgotten, the others still are', async () => {
  await using house = await House.start({ hosts: 0 })
  await house.database.rows(`insert into audit_log (actor, action, subject) values ('key:x', 'stream.takeover', 'y')`)
  await age(house, 401)
  await house.database.rows('alter table operations rename to operations_away')
  await house.replica.parts.retention.prune()
  await house.database.rows('alter table operations_away rename to operations')
  expect(await count(house, 'audit_log')).toBe(0)
})

test('what is forgotten is looked for, among what may refer to it, by an index', async () => {
  await using house = await House.start({ hosts: 0 })
  const forgotten = ['operations', 'generations', 'host_invites', 'replicas', 'audit_log']
  const unindexed = await house.database.rows(
    `select c.conname from pg_constraint c where c.contype = 'f' and c.confrelid = any($1::regclass[])
       and not exists (select 1 from pg_index i where i.indrelid = c.conrelid and i.indkey[0] = c.conkey[1])`,
    [forgotten],
  )
  expect(unindexed).toEqual([])
})

test('of more than one batch nothing is left, and one desktop has only its newest rows', async () => {
  await using house = await House.start({ hosts: 0 })
  const [{ id }, other] = [await house.desktop(), await house.desktop()]
  await house.database.rows(
    `insert into audit_log (at, actor, action, subject)
     select now() - interval '401 days', 'key:x', 'stream.takeover', 'y' from generate_series(1, 10001)`,
  )
  const rows = (desktop: string, most: number) => [
    `insert into execs (id, desktop_id, created_at)
     select gen_random_uuid(), '${desktop}', now() - n * interval '1 second' - interval '1 hour' from generate_series(1, ${most}) n`,
    `insert into input_batches (desktop_id, idempotency_key, id, fingerprint, requested_by, state, alive_until, created_at)
     select '${desktop}', 'k' || n, gen_random_uuid(), '', 'key:x', case n when ${most} then 'running' else 'done' end, now(),
       now() - n * interval '1 second' from generate_series(1, ${most}) n`,
    `insert into file_urls (id, org_id, desktop_id, path, method, once, hash, made_by, created_at, expires_at, revoked_at)
     select gen_random_uuid(), '${house.org.id}', '${desktop}', '/a', 'GET', true, '', 'key:x', now() - n * interval '1 second',
       now() + interval '1 hour', case n when ${most} then null else now() end from generate_series(1, ${most}) n`,
  ]
  for (const sql of [...rows(id, 10_002), ...rows(other.id, 10)]) await house.database.rows(sql)
  await house.replica.parts.retention.prune()
  expect(await count(house, 'audit_log')).toBe(0)
  for (const [table, most] of [
    ['execs', 10_000],
    // The oldest still runs, or is active.
    ['input_batches', 10_001],
    ['file_urls', 10_001],
  ] as const)
    expect([table, await count(house, table)]).toEqual([table, most + 10])
})

test('complete uploads that have expired go at once, however many there are, and those of a desktop that is gone', async () => {
  await using house = await House.start({ hosts: 0 })
  const [kept, gone] = [await house.desktop(), await house.desktop()]
  await house.database.rows(
    `insert into uploads (id, org_id, desktop_id, path, state, expires_at)
     select gen_random_uuid(), '${house.org.id}', '${kept.id}', '/a', case n % 2 when 0 then 'complete' else 'open' end,
       now() - interval '1 second' from generate_series(1, 1000) n`,
  )
  await house.database.rows(
    `insert into uploads (id, org_id, desktop_id, path, state, expires_at)
     values (gen_random_uuid(), '${house.org.id}', '${gone.id}', '/a', 'open', now() + interval '1 day')`,
  )
  await house.ask(gone.id, 'destroy')
  await house.replica.parts.uploads.prune()
  // Its desktop sleeps: what is in its guest is removed after the next wake.
  expect(await house.database.rows('select distinct state, count(*)::int from uploads group by 1')).toEqual([
    { state: 'open', count: 500 },
  ])
})

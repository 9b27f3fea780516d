// Guarantee: what is old is forgotten, piece by piece, and nothing of it that a caller was promised.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { ApiWish } from './parts/api.ts'

/** Everything that happened so far happened so long ago. */
async function age(stack: Stack, days: number): Promise<void> {
  for (const [table, columns] of [
    ['operations', ['created_at', 'settled_at']],
    ['generations', ['started_at', 'ended_at', 'superseded_at']],
    ['host_invites', ['created_at', 'expires_at', 'used_at']],
    ['audit_log', ['at']],
  ] as const)
    await stack.database.rows(
      `update ${table} set ${columns.map((column) => `${column} = ${column} - interval '${days} days'`).join(', ')}`,
    )
}

const count = async (stack: Stack, table: string): Promise<number> =>
  (await stack.database.rows<{ n: number }>(`select count(*)::int as n from ${table}`))[0]!.n

/** The operations that the ledger names. */
const openings = async (stack: Stack) =>
  (await stack.database.rows<{ by: string }>('select opened_by as by from usage_intervals')).map(({ by }) => by)

/** A wake that fails, for want of an image that any host has. */
async function failedWake(stack: Stack, id: string, key?: string): Promise<string> {
  const wish: ApiWish = key ? { headers: { 'idempotency-key': key } } : {}
  const { json } = await stack.api('POST', `/v1/desktops/${id}/wake`, wish)
  return (await stack.settled(json.id)).id
}

test('old attempts without a key go; a key, its first answer and what was billed stay, and the desktop goes on', async () => {
  await using stack = await Stack.start({ controlPlane: { defaultImage: 'none' } })
  const { retention } = stack.replica.parts
  const hopeless = await stack.desktop()
  const [nameless, keyed] = [await failedWake(stack, hopeless.id), await failedWake(stack, hopeless.id, 'kept')]
  const { id } = await stack.desktop('hibernated', { image_version: 'mini' })
  await stack.remember((await stack.ask(id, 'wake')).desktop_id, 'on')
  const billed = (await stack.api('GET', `/v1/desktops/${id}/operations`)).json
  const opened = await openings(stack)
  const before = await stack.operation(keyed)
  await retention.prune()
  expect((await stack.api('GET', `/v1/operations/${nameless}`)).status).toBe(200)
  await age(stack, 91)
  await stack.begin(id, 'hibernate')
  await stack.settle()
  await retention.prune()
  await retention.prune()
  expect((await stack.api('GET', `/v1/operations/${nameless}`)).status).toBe(404)
  const { settled_at, created_at, ...outcome } = before
  expect(await stack.operation(keyed)).toMatchObject(outcome)
  expect([Date.parse(settled_at!) > Date.parse(created_at), outcome.state]).toEqual([true, 'failed'])
  for (const [body, says] of [
    [{}, 'true'],
    [{ discard_memory: true }, 'mismatch'],
  ]) {
    const headers = { 'idempotency-key': 'kept' }
    const again = await stack.api('POST', `/v1/desktops/${hopeless.id}/wake`, { headers, body })
    expect([again.status, again.json.id, again.headers['idempotency-replayed']]).toEqual([200, keyed, says])
  }
  const now = (await stack.api('GET', `/v1/desktops/${id}/operations`)).json.operations
  expect(now.slice(1).map((one: { id: string }) => one.id)).toEqual(
    billed.operations.map((one: { id: string }) => one.id),
  )
  expect(await openings(stack)).toEqual(expect.arrayContaining(opened))
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect(await stack.recall(id)).toEqual({ memory: 'on', disk: 'on' })
})

test('of generations only the latest stays, of invitations none that is spent, of replicas none that is dead', async () => {
  await using stack = await Stack.start()
  const { retention, hosts } = stack.replica.parts
  const { id } = await stack.desktop('hibernated')
  await stack.ask(id, 'wake')
  await stack.ask(id, 'hibernate')
  const { current_generation_id } = await stack.see(id)
  expect([await count(stack, 'generations'), await count(stack, 'host_invites')]).toEqual([2, 1])
  await stack.database.rows(
    `insert into replicas (id, url, version, commit, seen_at) values (gen_random_uuid(), 'x', '', '', now() - interval '2 days')`,
  )
  await age(stack, 91)
  await hosts.invite('young')
  await retention.prune()
  const generations = await stack.database.rows<{ id: string }>('select id from generations')
  expect(generations.map((row) => row.id)).toEqual([current_generation_id])
  expect([await count(stack, 'host_invites'), await count(stack, 'replicas')]).toEqual([1, 1])
})

test('a generation that never ran is forgotten like any other, and not before its time is up', async () => {
  await using stack = await Stack.start({ controlPlane: { defaultImage: 'none' } })
  const { retention } = stack.replica.parts
  const { id } = await stack.desktop()
  for (let wakes = 0; wakes < 3; wakes++) await failedWake(stack, id)
  await age(stack, 89)
  await retention.prune()
  expect(await count(stack, 'generations')).toBe(3)
  await age(stack, 2)
  await retention.prune()
  const generations = await stack.database.rows<{ id: string }>('select id from generations')
  expect(generations.map((row) => row.id)).toEqual([(await stack.see(id)).current_generation_id])
})

test('the audit log is kept for longer, and then goes too', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { retention } = stack.replica.parts
  await stack.database.rows(`insert into audit_log (actor, action, subject) values ('key:x', 'stream.takeover', 'y')`)
  await age(stack, 399)
  await retention.prune()
  expect(await count(stack, 'audit_log')).toBe(1)
  await age(stack, 2)
  await retention.prune()
  expect(await count(stack, 'audit_log')).toBe(0)
})

test('neither what is old nor the lines of one subject are looked for in the whole audit log', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await stack.database.rows(
    `insert into audit_log (at, actor, action, subject)
     select now() - n * interval '1 minute', 'key:x', 'stream.takeover', 's' || n % 100 from generate_series(1, 5000) n`,
  )
  await stack.database.rows('analyze audit_log')
  const plan = async (rest: string) => {
    const rows = await stack.database.rows<{ 'QUERY PLAN': string }>(`explain select id from audit_log where ${rest}`)
    return rows.map((row) => row['QUERY PLAN']).join('\n')
  }
  expect(await plan(`at < now() - interval '400 days' order by at limit 5000`)).toContain('audit_log_at')
  expect(await plan(`subject = 's1' order by id desc limit 100`)).toContain('audit_log_subject')
})

test('where one kind of record cannot be forgotten, the others still are', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await stack.database.rows(`insert into audit_log (actor, action, subject) values ('key:x', 'stream.takeover', 'y')`)
  await age(stack, 401)
  await stack.database.rows('alter table operations rename to operations_away')
  await stack.replica.parts.retention.prune()
  await stack.database.rows('alter table operations_away rename to operations')
  expect(await count(stack, 'audit_log')).toBe(0)
})

test('what is forgotten is looked for, among what may refer to it, by an index', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const forgotten = ['operations', 'generations', 'host_invites', 'replicas', 'audit_log']
  const unindexed = await stack.database.rows(
    `select c.conname from pg_constraint c where c.contype = 'f' and c.confrelid = any($1::regclass[])
       and not exists (select 1 from pg_index i where i.indrelid = c.conrelid and i.indkey[0] = c.conkey[1])`,
    [forgotten],
  )
  expect(unindexed).toEqual([])
})

test('of more than one batch nothing is left, and one desktop has only its newest rows', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const [{ id }, other] = [await stack.desktop(), await stack.desktop()]
  await stack.database.rows(
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
     select gen_random_uuid(), '${stack.org.id}', '${desktop}', '/a', 'GET', true, '', 'key:x', now() - n * interval '1 second',
       now() + interval '1 hour', case n when ${most} then null else now() end from generate_series(1, ${most}) n`,
  ]
  for (const sql of [...rows(id, 10_002), ...rows(other.id, 10)]) await stack.database.rows(sql)
  await stack.replica.parts.retention.prune()
  expect(await count(stack, 'audit_log')).toBe(0)
  for (const [table, most] of [
    ['execs', 10_000],
    // The oldest still runs, or is active.
    ['input_batches', 10_001],
    ['file_urls', 10_001],
  ] as const)
    expect([table, await count(stack, table)]).toEqual([table, most + 10])
})

test('complete uploads that have expired go at once, however many there are, and those of a desktop that is gone', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const [kept, gone] = [await stack.desktop(), await stack.desktop()]
  await stack.database.rows(
    `insert into uploads (id, org_id, desktop_id, path, state, expires_at)
     select gen_random_uuid(), '${stack.org.id}', '${kept.id}', '/a', case n % 2 when 0 then 'complete' else 'open' end,
       now() - interval '1 second' from generate_series(1, 1000) n`,
  )
  await stack.database.rows(
    `insert into uploads (id, org_id, desktop_id, path, state, expires_at)
     values (gen_random_uuid(), '${stack.org.id}', '${gone.id}', '/a', 'open', now() + interval '1 day')`,
  )
  await stack.ask(gone.id, 'destroy')
  await stack.replica.parts.uploads.prune()
  // Its desktop sleeps: what is in its guest is removed after the next wake.
  expect(await stack.database.rows('select distinct state, count(*)::int from uploads group by 1')).toEqual([
    { state: 'open', count: 500 },
  ])
})

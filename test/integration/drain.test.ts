// Guarantee: a drain empties a host without losing anything, reports what became of each desktop, and always ends: whatever
// dies meanwhile, and whatever customers do. Without capacity elsewhere, nothing is hibernated.
import type { DrainJson } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack, type StackOptions } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'

/** Any free port: the tests run beside each other. */
const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

async function testbed(options: StackOptions = {}) {
  const stack = await Stack.start({ agent, ...options })
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', key)
  const post = (path: string, body: object = {}) => stack.api('POST', `/admin/v1/${path}`, { key, body })
  const drain = async (host: Host, body: object = {}): Promise<DrainJson> => {
    const { status, json, text } = await post(`hosts/${host.id}/drain`, { grace_secs: 0, ...body })
    if (status !== 202) throw new Error(`drain: ${status} ${text}`)
    return json
  }
  const seen = async ({ id }: DrainJson): Promise<DrainJson> =>
    (await stack.api('GET', `/admin/v1/drains/${id}`, { key })).json
  const ended = (one: DrainJson) => {
    let now = one
    const look = async () => {
      now = await seen(one)
      return now.settled_at !== null && now
    }
    return waitFor('the drain to end', look).catch((error: Error) => {
      throw new Error(`${error.message}; it is ${JSON.stringify(now, undefined, 1)}`)
    })
  }
  const hostOf = async ({ id }: Host) =>
    (await stack.api('GET', '/admin/v1/hosts', { key })).json.hosts.find((one: { id: string }) => one.id === id)
  return { stack, post, drain, seen, ended, hostOf, key }
}

/** Makes desktops while there is no other host, and then as many others. */
async function alone<T>(stack: Stack, work: () => Promise<T>, others = 1): Promise<T> {
  const made = await work()
  for (let i = 0; i < others; i++) await stack.addHost()
  return made
}

async function awake(stack: Stack): Promise<string> {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  return id
}

async function asleep(stack: Stack): Promise<string> {
  const id = await awake(stack)
  await stack.ask(id, 'hibernate')
  return id
}

const first = (stack: Stack): Host => stack.hosts[0]!
const second = (stack: Stack): Host => stack.hosts[1]!

test('what is awake goes on elsewhere, what sleeps stays or moves, and the host stays cordoned', async () => {
  const { stack, post, drain, ended, hostOf } = await testbed()
  await using _ = stack
  const [a, b, c] = await alone(stack, async () => [await awake(stack), await asleep(stack), await awake(stack)])
  const plan = (await post(`hosts/${first(stack).name}/drain`, { dry_run: true })).json as DrainJson
  expect(plan).toMatchObject({
    id: null,
    state: 'planned',
    host_id: first(stack).id,
    progress: { total: 3, blocked: 0 },
  })
  expect(plan.estimated_secs).toBeNull()
  const actionOf = (id: string) => plan.desktops.find((one) => one.desktop_id === id)
  expect([actionOf(a), actionOf(b)]).toMatchObject([
    { action: 'live_move', to_host_id: second(stack).id, to_host: second(stack).name },
    { action: 'leave', to_host_id: null },
  ])
  expect(await hostOf(first(stack))).toMatchObject({ cordoned: false, drain_id: null })

  const done = await ended(await drain(first(stack)))
  expect(done).toMatchObject({ state: 'drained', progress: { total: 3, moved: 2, left: 1 }, estimated_secs: 0 })
  expect(await hostOf(first(stack))).toMatchObject({ cordoned: true, drain_id: null })
  for (const id of [a, c]) {
    expect(await stack.see(id)).toMatchObject({ state: 'awake', host_id: second(stack).id, generation: 1 })
    expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
    const [last] = (await stack.client.listOperations(a)).operations
    expect(last).toMatchObject({ kind: 'move', requested_by: 'drain', state: 'succeeded' })
  }
  expect(await stack.see(b)).toMatchObject({ state: 'hibernated', host_id: first(stack).id })

  expect(await ended(await drain(first(stack), { sleeping: 'move' }))).toMatchObject({ state: 'drained' })
  expect(await stack.see(b)).toMatchObject({ state: 'hibernated', host_id: second(stack).id })
  await stack.settle()
  expect(await stack.inventory(first(stack))).toEqual([])
  await stack.ask(b, 'wake')
  expect(await stack.recall(b)).toEqual({ memory: 'kept', disk: 'kept' })
  expect((await post(`hosts/${first(stack).id}/uncordon`)).json).toMatchObject({ cordoned: false })
  const after = (await post(`hosts/${second(stack).id}/drain`, { dry_run: true })).json as DrainJson
  const longest = Math.max(...after.desktops.map(({ estimated_secs }) => estimated_secs ?? 0))
  expect(after.estimated_secs).toBeGreaterThanOrEqual(longest)
  expect(longest).toBeGreaterThan(0)
})

test('by hibernation each is saved, and moved where that is asked for', async () => {
  const { stack, drain, ended } = await testbed()
  await using _ = stack
  const ids = await alone(stack, async () => [await awake(stack), await awake(stack)])
  const done = await ended(await drain(first(stack), { awake: 'hibernate', sleeping: 'move' }))
  expect(done).toMatchObject({ state: 'drained', progress: { moved: 2 } })
  for (const id of ids) expect(await stack.see(id)).toMatchObject({ state: 'hibernated', host_id: second(stack).id })
})

test('what does not move live is hibernated by its move, and is awake on the other host', async () => {
  const { stack, drain, ended } = await testbed()
  await using _ = stack
  const id = await alone(stack, () => awake(stack))
  // Each try in this way counts, until the drain goes the other way.
  first(stack).driver.faults.failNext('sendMove', 2)
  const begun = await drain(first(stack))
  await waitFor('two tries', async () => {
    await stack.database.rows('update drain_desktops set retry_at = null')
    return (await stack.client.listOperations(id)).operations.filter(({ kind }) => kind === 'move').length > 2
  })
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 1, host_id: second(stack).id })
  const [last] = (await stack.client.listOperations(id)).operations
  expect(last).toMatchObject({ kind: 'move', requested_by: 'drain', result: { moved: 'hibernated' } })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('with no room elsewhere nothing is hibernated, and each is named with the reason', async () => {
  const { stack, drain, ended, hostOf, post } = await testbed()
  await using _ = stack
  const [a, b] = await alone(stack, async () => [await awake(stack), await asleep(stack)])
  await stack.database.rows(
    `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib) values ($1, $2, 0, 1000000000, 0)`,
    [newId(), second(stack).id],
  )
  const plan = (await post(`hosts/${first(stack).id}/drain`, { dry_run: true })).json as DrainJson
  expect(plan.desktops.find(({ desktop_id }) => desktop_id === a)).toMatchObject({ action: 'blocked' })
  for (const mode of ['live', 'hibernate']) {
    const done = await ended(await drain(first(stack), { awake: mode }))
    expect(done).toMatchObject({ state: 'blocked', progress: { blocked: 1, left: 1 } })
    expect(done.desktops.find(({ desktop_id }) => desktop_id === a)).toMatchObject({
      status: 'blocked',
      tries: 0,
      reason: { code: 'no_room', detail: expect.stringContaining(second(stack).name) },
    })
  }
  expect([(await stack.see(a)).state, (await stack.see(b)).state]).toEqual(['awake', 'hibernated'])
  expect(await hostOf(first(stack))).toMatchObject({ cordoned: true, drain_id: null })
})

test('a cancelled drain undoes the move in flight and says what has moved; the host stays cordoned', async () => {
  const { stack, drain, post, ended, seen, hostOf } = await testbed()
  await using _ = stack
  const ids = await alone(stack, async () => [await awake(stack), await awake(stack), await awake(stack)])
  // The second move is delayed before it is decided.
  let moves = 0
  const held = Promise.withResolvers<void>()
  stack.failpoints.set('move.send.after', async () => {
    if (++moves === 2) await held.promise
  })
  const begun = await drain(first(stack), { concurrency: 1 })
  await waitFor('the second move', () => moves === 2)
  expect((await post(`hosts/${first(stack).id}/uncordon`)).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await post(`drains/${begun.id}/cancel`)).json).toMatchObject({ state: 'cancelling' })
  held.resolve()
  const done = await ended(begun)
  expect(done).toMatchObject({ state: 'cancelled', progress: { moved: 1, waiting: 2 } })
  expect((await post(`drains/${begun.id}/cancel`)).json.state).toBe('cancelled')
  expect((await seen(begun)).state).toBe('cancelled')
  expect(await hostOf(first(stack))).toMatchObject({ cordoned: true, drain_id: null })
  const there = await Promise.all(ids.map(async (id) => (await stack.see(id)).host_id))
  expect(there.filter((host) => host === first(stack).id).length).toBe(2)
  for (const id of ids) expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a target that dies half way costs a try: the desktop goes to another host', async () => {
  const { stack, drain, ended } = await testbed({ controlPlane: { moveDeadlineMs: 1_000 } })
  await using _ = stack
  const id = await alone(stack, () => awake(stack), 2)
  let died: string | undefined
  stack.failpoints.set('move.begin.after', async () => {
    stack.failpoints.set('move.begin.after', undefined)
    const [arrival] = await stack.database.rows<{ host: string }>('select host_id as host from arrivals')
    died = arrival!.host
    await stack.killAgent(stack.hosts.findIndex((host) => host.id === died))
  })
  const done = await ended(await drain(first(stack)))
  expect(done).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect(done.desktops[0]!.to_host_id).not.toBe(died)
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  await stack.restartAgent(stack.hosts.findIndex((host) => host.id === died))
})

test('commands in flight delay it for the grace, and are cut after that', async () => {
  const { stack, drain, seen, ended } = await testbed()
  await using _ = stack
  const id = await alone(stack, () => awake(stack))
  const running = stack.exec(id, 'sleep 60', { timeout_secs: 90 })
  await waitFor(
    'the command',
    async () =>
      (await stack.replica.parts.links.command(first(stack).id, 'desktop.observe', { desktopId: id })).calls === 1,
  )
  const begun = await drain(first(stack), { grace_secs: 2 })
  await waitFor('the drain to wait', async () => (await seen(begun)).desktops[0]?.reason?.detail.includes('in flight'))
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect((await running).json).toMatchObject({ status: 409, code: 'exec_interrupted' })
})

test('a later leader goes on with it, and so it does when an agent has restarted', async () => {
  const { stack, drain, ended } = await testbed()
  await using _ = stack
  const ids = await alone(stack, async () => [await awake(stack), await awake(stack), await awake(stack)])
  let terms = 0
  stack.failpoints.set('move.send.before', async () => {
    if (terms++ < 2) await stack.endTerm()
  })
  const begun = await drain(first(stack), { concurrency: 1 })
  await waitFor('a later term', () => terms > 0)
  await stack.restartAgent(1)
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 3 } })
  for (const id of ids) expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('hosts of a rack that are drained together send nothing to each other', async () => {
  const { stack, drain, ended } = await testbed({ hosts: 2 })
  await using _ = stack
  const ids = await Promise.all(Array.from({ length: 6 }, () => awake(stack)))
  const third = await stack.addHost()
  const begun = await Promise.all([drain(first(stack)), drain(second(stack))])
  for (const one of begun) expect(await ended(one)).toMatchObject({ state: 'drained' })
  for (const id of ids) expect((await stack.see(id)).host_id).toBe(third.id)
  const moves = await stack.database.rows(`select 1 from operations where kind = 'move'`)
  expect(moves.length).toBe(6)
})

test('200 desktops, while customers wake, hibernate and destroy', async () => {
  const { stack, drain, ended } = await testbed()
  await using _ = stack
  const ids = await alone(stack, async () => {
    const made = await Promise.all(Array.from({ length: 200 }, () => stack.desktop()))
    await Promise.all(made.slice(0, 60).map(({ id }) => stack.ask(id, 'wake')))
    await Promise.all(made.slice(20, 25).map(({ id }) => stack.ask(id, 'hibernate')))
    return made.map(({ id }) => id)
  })
  // The others were made on the host without having run there.
  await stack.database.rows(`update desktops set host_id = $1, state = 'stopped' where state = 'created'`, [
    first(stack).id,
  ])
  const begun = await drain(first(stack), { concurrency: 16, awake: 'hibernate' })
  const ask = (id: string, kind: string) => stack.api('POST', `/v1/desktops/${id}/${kind}`)
  const asked = await Promise.all([
    ...ids.slice(0, 10).map((id) => ask(id, 'hibernate')),
    ...ids.slice(10, 20).map((id) => ask(id, 'destroy')),
    ...ids.slice(20, 25).map((id) => ask(id, 'wake')),
  ])
  expect(asked.filter(({ status }) => ![200, 202, 409].includes(status))).toEqual([])
  const done = await ended(begun)
  expect(done).toMatchObject({ state: 'drained', progress: { total: 200, blocked: 0, waiting: 0, working: 0 } })
  expect(done.progress.gone).toBe(10)
  // What is woken meanwhile wakes elsewhere.
  for (const id of ids.slice(20, 25)) expect((await stack.see(id)).host_id).toBe(second(stack).id)
})

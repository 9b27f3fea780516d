// Guarantee: a drain empties a host without losing anything, tells of each desktop what became of it, and always ends: whatever
// dies meanwhile, and whatever customers do. With no room elsewhere nothing is hibernated.
import type { DrainJson } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House, type HouseOptions } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'

/** Any free port: the tests run beside each other. */
const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

async function ground(options: HouseOptions = {}) {
  const house = await House.start({ agent, ...options })
  const key = await house.replica.parts.principals.createOperatorKey('ops')
  house.secrets.learn('the operator’s key', key)
  const post = (path: string, body: object = {}) => house.api('POST', `/admin/v1/${path}`, { key, body })
  const drain = async (host: Host, body: object = {}): Promise<DrainJson> => {
    const { status, json, text } = await post(`hosts/${host.id}/drain`, { grace_secs: 0, ...body })
    if (status !== 202) throw new Error(`drain: ${status} ${text}`)
    return json
  }
  const seen = async ({ id }: DrainJson): Promise<DrainJson> =>
    (await house.api('GET', `/admin/v1/drains/${id}`, { key })).json
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
    (await house.api('GET', '/admin/v1/hosts', { key })).json.hosts.find((one: { id: string }) => one.id === id)
  return { house, post, drain, seen, ended, hostOf, key }
}

/** Makes desktops while there is no other host, and then as many others. */
async function alone<T>(house: House, work: () => Promise<T>, others = 1): Promise<T> {
  const made = await work()
  for (let i = 0; i < others; i++) await house.addHost()
  return made
}

async function awake(house: House): Promise<string> {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  return id
}

async function asleep(house: House): Promise<string> {
  const id = await awake(house)
  await house.ask(id, 'hibernate')
  return id
}

const first = (house: House): Host => house.hosts[0]!
const second = (house: House): Host => house.hosts[1]!

test('what is awake goes on elsewhere, what sleeps stays or moves, and the host stays cordoned', async () => {
  const { house, post, drain, ended, hostOf } = await ground()
  await using _ = house
  const [a, b, c] = await alone(house, async () => [await awake(house), await asleep(house), await awake(house)])
  const plan = (await post(`hosts/${first(house).name}/drain`, { dry_run: true })).json as DrainJson
  expect(plan).toMatchObject({
    id: null,
    state: 'planned',
    host_id: first(house).id,
    progress: { total: 3, blocked: 0 },
  })
  expect(plan.estimated_secs).toBeNull()
  const actionOf = (id: string) => plan.desktops.find((one) => one.desktop_id === id)
  expect([actionOf(a), actionOf(b)]).toMatchObject([
    { action: 'live_move', to_host_id: second(house).id, to_host: second(house).name },
    { action: 'leave', to_host_id: null },
  ])
  expect(await hostOf(first(house))).toMatchObject({ cordoned: false, drain_id: null })

  const done = await ended(await drain(first(house)))
  expect(done).toMatchObject({ state: 'drained', progress: { total: 3, moved: 2, left: 1 }, estimated_secs: 0 })
  expect(await hostOf(first(house))).toMatchObject({ cordoned: true, drain_id: null })
  for (const id of [a, c]) {
    expect(await house.see(id)).toMatchObject({ state: 'awake', host_id: second(house).id, generation: 1 })
    expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
    const [last] = (await house.client.listOperations(a)).operations
    expect(last).toMatchObject({ kind: 'move', requested_by: 'drain', state: 'succeeded' })
  }
  expect(await house.see(b)).toMatchObject({ state: 'hibernated', host_id: first(house).id })

  expect(await ended(await drain(first(house), { sleeping: 'move' }))).toMatchObject({ state: 'drained' })
  expect(await house.see(b)).toMatchObject({ state: 'hibernated', host_id: second(house).id })
  await house.settle()
  expect(await house.inventory(first(house))).toEqual([])
  await house.ask(b, 'wake')
  expect(await house.recall(b)).toEqual({ memory: 'kept', disk: 'kept' })
  expect((await post(`hosts/${first(house).id}/uncordon`)).json).toMatchObject({ cordoned: false })
  const after = (await post(`hosts/${second(house).id}/drain`, { dry_run: true })).json as DrainJson
  const longest = Math.max(...after.desktops.map(({ estimated_secs }) => estimated_secs ?? 0))
  expect(after.estimated_secs).toBeGreaterThanOrEqual(longest)
  expect(longest).toBeGreaterThan(0)
})

test('by hibernation each is saved, and moved where that is asked for', async () => {
  const { house, drain, ended } = await ground()
  await using _ = house
  const ids = await alone(house, async () => [await awake(house), await awake(house)])
  const done = await ended(await drain(first(house), { awake: 'hibernate', sleeping: 'move' }))
  expect(done).toMatchObject({ state: 'drained', progress: { moved: 2 } })
  for (const id of ids) expect(await house.see(id)).toMatchObject({ state: 'hibernated', host_id: second(house).id })
})

test('what does not move live is hibernated by its move, and is awake on the other host', async () => {
  const { house, drain, ended } = await ground()
  await using _ = house
  const id = await alone(house, () => awake(house))
  // Each try in this way counts, until the drain goes the other way.
  first(house).driver.faults.failNext('sendMove', 2)
  const begun = await drain(first(house))
  await waitFor('two tries', async () => {
    await house.database.rows('update drain_desktops set retry_at = null')
    return (await house.client.listOperations(id)).operations.filter(({ kind }) => kind === 'move').length > 2
  })
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect(await house.see(id)).toMatchObject({ state: 'awake', generation: 1, host_id: second(house).id })
  const [last] = (await house.client.listOperations(id)).operations
  expect(last).toMatchObject({ kind: 'move', requested_by: 'drain', result: { moved: 'hibernated' } })
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('with no room elsewhere nothing is hibernated, and each is named with the reason', async () => {
  const { house, drain, ended, hostOf, post } = await ground()
  await using _ = house
  const [a, b] = await alone(house, async () => [await awake(house), await asleep(house)])
  await house.database.rows(
    `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib) values ($1, $2, 0, 1000000000, 0)`,
    [newId(), second(house).id],
  )
  const plan = (await post(`hosts/${first(house).id}/drain`, { dry_run: true })).json as DrainJson
  expect(plan.desktops.find(({ desktop_id }) => desktop_id === a)).toMatchObject({ action: 'blocked' })
  for (const mode of ['live', 'hibernate']) {
    const done = await ended(await drain(first(house), { awake: mode }))
    expect(done).toMatchObject({ state: 'blocked', progress: { blocked: 1, left: 1 } })
    expect(done.desktops.find(({ desktop_id }) => desktop_id === a)).toMatchObject({
      status: 'blocked',
      tries: 0,
      reason: { code: 'no_room', detail: expect.stringContaining(second(house).name) },
    })
  }
  expect([(await house.see(a)).state, (await house.see(b)).state]).toEqual(['awake', 'hibernated'])
  expect(await hostOf(first(house))).toMatchObject({ cordoned: true, drain_id: null })
})

test('a cancelled drain undoes the move in flight and says what has moved; the host stays cordoned', async () => {
  const { house, drain, post, ended, seen, hostOf } = await ground()
  await using _ = house
  const ids = await alone(house, async () => [await awake(house), await awake(house), await awake(house)])
  // The second move is held up before it is decided.
  let moves = 0
  const held = Promise.withResolvers<void>()
  house.failpoints.set('move.send.after', async () => {
    if (++moves === 2) await held.promise
  })
  const begun = await drain(first(house), { concurrency: 1 })
  await waitFor('the second move', () => moves === 2)
  expect((await post(`hosts/${first(house).id}/uncordon`)).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await post(`drains/${begun.id}/cancel`)).json).toMatchObject({ state: 'cancelling' })
  held.resolve()
  const done = await ended(begun)
  expect(done).toMatchObject({ state: 'cancelled', progress: { moved: 1, waiting: 2 } })
  expect((await post(`drains/${begun.id}/cancel`)).json.state).toBe('cancelled')
  expect((await seen(begun)).state).toBe('cancelled')
  expect(await hostOf(first(house))).toMatchObject({ cordoned: true, drain_id: null })
  const there = await Promise.all(ids.map(async (id) => (await house.see(id)).host_id))
  expect(there.filter((host) => host === first(house).id).length).toBe(2)
  for (const id of ids) expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a target that dies half way costs a try: the desktop goes to another host', async () => {
  const { house, drain, ended } = await ground({ controlPlane: { moveDeadlineMs: 1_000 } })
  await using _ = house
  const id = await alone(house, () => awake(house), 2)
  let died: string | undefined
  house.failpoints.set('move.begin.after', async () => {
    house.failpoints.set('move.begin.after', undefined)
    const [arrival] = await house.database.rows<{ host: string }>('select host_id as host from arrivals')
    died = arrival!.host
    await house.killAgent(house.hosts.findIndex((host) => host.id === died))
  })
  const done = await ended(await drain(first(house)))
  expect(done).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect(done.desktops[0]!.to_host_id).not.toBe(died)
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  await house.restartAgent(house.hosts.findIndex((host) => host.id === died))
})

test('commands in flight delay it for the grace, and are cut after that', async () => {
  const { house, drain, seen, ended } = await ground()
  await using _ = house
  const id = await alone(house, () => awake(house))
  const running = house.exec(id, 'sleep 60', { timeout_secs: 90 })
  await waitFor(
    'the command',
    async () =>
      (await house.replica.parts.links.command(first(house).id, 'desktop.observe', { desktopId: id })).calls === 1,
  )
  const begun = await drain(first(house), { grace_secs: 2 })
  await waitFor('the drain to wait', async () => (await seen(begun)).desktops[0]?.reason?.detail.includes('in flight'))
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 1 } })
  expect((await running).json).toMatchObject({ status: 409, code: 'exec_interrupted' })
})

test('a later leader goes on with it, and so it does when an agent has restarted', async () => {
  const { house, drain, ended } = await ground()
  await using _ = house
  const ids = await alone(house, async () => [await awake(house), await awake(house), await awake(house)])
  let terms = 0
  house.failpoints.set('move.send.before', async () => {
    if (terms++ < 2) await house.endTerm()
  })
  const begun = await drain(first(house), { concurrency: 1 })
  await waitFor('a later term', () => terms > 0)
  await house.restartAgent(1)
  expect(await ended(begun)).toMatchObject({ state: 'drained', progress: { moved: 3 } })
  for (const id of ids) expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('hosts of a rack that are drained together send nothing to each other', async () => {
  const { house, drain, ended } = await ground({ hosts: 2 })
  await using _ = house
  const ids = await Promise.all(Array.from({ length: 6 }, () => awake(house)))
  const third = await house.addHost()
  const begun = await Promise.all([drain(first(house)), drain(second(house))])
  for (const one of begun) expect(await ended(one)).toMatchObject({ state: 'drained' })
  for (const id of ids) expect((await house.see(id)).host_id).toBe(third.id)
  const moves = await house.database.rows(`select 1 from operations where kind = 'move'`)
  expect(moves.length).toBe(6)
})

test('200 desktops, while customers wake, hibernate and destroy', async () => {
  const { house, drain, ended } = await ground()
  await using _ = house
  const ids = await alone(house, async () => {
    const made = await Promise.all(Array.from({ length: 200 }, () => house.desktop()))
    await Promise.all(made.slice(0, 60).map(({ id }) => house.ask(id, 'wake')))
    await Promise.all(made.slice(20, 25).map(({ id }) => house.ask(id, 'hibernate')))
    return made.map(({ id }) => id)
  })
  // The others were made on the host without having run there.
  await house.database.rows(`update desktops set host_id = $1, state = 'stopped' where state = 'created'`, [
    first(house).id,
  ])
  const begun = await drain(first(house), { concurrency: 16, awake: 'hibernate' })
  const ask = (id: string, kind: string) => house.api('POST', `/v1/desktops/${id}/${kind}`)
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
  for (const id of ids.slice(20, 25)) expect((await house.see(id)).host_id).toBe(second(house).id)
})

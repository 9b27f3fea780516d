// Guarantee: a desktop that nobody uses hibernates after its timeout, one that is used never does, and its idle view says why.
import type { IdleJson, StreamClaim, StreamJson } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House, type HouseOptions } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import { RfbClient } from './parts/rfb-client.ts'

const agent = { activityEveryMs: 100 }
/** As stored by default. A test shortens it where the desktop shall fall asleep, so that a slow machine lets none do so before. */
const longSecs = 1_800

const ground = (options: HouseOptions = {}) => House.start({ agent, ...options })

async function idleOf(house: House, id: string): Promise<IdleJson> {
  const { status, json } = await house.api('GET', `/v1/desktops/${id}/idle`)
  expect(status).toBe(200)
  return json as IdleJson
}

const reasonsOf = async (house: House, id: string) =>
  (await idleOf(house, id)).awake_because.map(({ reason }) => reason).sort()

const setTimeoutOf = (house: House, secs: number, ...ids: string[]) =>
  house.database.rows('update desktops set idle_timeout_secs = $1, idle_look_at = now() where id = any($2)', [
    secs,
    ids,
  ])

/** With a timeout of one second nothing else keeps the desktop awake in the end. The leader looks once more. */
async function keptBy(house: House, id: string, ...reasons: string[]): Promise<void> {
  await setTimeoutOf(house, 1, id)
  await waitFor(`only ${reasons} to keep it awake`, async () => `${await reasonsOf(house, id)}` === `${reasons}`)
  await look(house, id)
  expect((await house.see(id)).state).toBe('awake')
}

async function look(house: House, ...ids: string[]): Promise<void> {
  for (const id of ids) await house.database.rows('update desktops set idle_look_at = now() where id = $1', [id])
  await house.replica.parts.wings.idle.idle.runner.look()
}

/** The leader looks until the desktop has fallen asleep, after a second. */
async function sleeps(house: House, id: string): Promise<void> {
  await setTimeoutOf(house, 1, id)
  await waitFor('the desktop to fall asleep', async () => {
    await look(house, id)
    return (await house.see(id)).state !== 'awake'
  })
  await house.becomes(id, 'hibernated')
}

const operationsOf = async (house: House, id: string) =>
  (await house.client.listOperations(id)).operations.map(({ kind, requested_by, state }) => [kind, requested_by, state])

const change = (house: House, id: string, body: object) => house.api('PATCH', `/v1/desktops/${id}`, { body })
const lock = (house: House, id: string, name: string, expires_in_secs = 3_600, key = house.org.key) =>
  house.api('PUT', `/v1/desktops/${id}/wake-locks/${name}`, { body: { reason: 'a build', expires_in_secs }, key })
const unlock = (house: House, id: string, name: string) => house.api('DELETE', `/v1/desktops/${id}/wake-locks/${name}`)

async function screen(house: House, id: string, claim: StreamClaim): Promise<RfbClient> {
  const { json } = await house.api('POST', `/v1/desktops/${id}/stream`, { body: { claim } })
  return RfbClient.connect((json as StreamJson).websocket_url)
}

/** Holds the next hibernation right before its host is asked. */
function held(house: House) {
  const go = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  house.failpoints.set('hibernate.save.before', () => {
    reached.resolve()
    return go.promise
  })
  return { reached: reached.promise, go: go.resolve, [Symbol.dispose]: () => go.resolve() }
}

test('it hibernates by an operation like any other, reads keep it not awake, and a wake brings everything back', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  const awake = { state: 'awake', idle_timeout_secs: longSecs, idle_policy: ['command', 'transfer', 'screen', 'input'] }
  expect(
    await waitFor('its time', async () => ((seen) => seen.sleeps_at && seen)(await idleOf(house, id))),
  ).toMatchObject(awake)
  await setTimeoutOf(house, 1, id)
  await waitFor('the desktop to fall asleep', async () => {
    await look(house, id)
    await house.api('GET', `/v1/desktops/${id}/screenshot`)
    await house.api('GET', '/v1/desktops')
    return (await idleOf(house, id)).state === 'hibernated'
  })
  await house.settle()
  expect(await idleOf(house, id)).toMatchObject({
    awake_because: [],
    sleeps_at: null,
    activity: [{ class: 'command', counts: true, now: false }, {}, {}, {}, {}, { class: 'network', counts: false }],
  })
  expect(await operationsOf(house, id)).toEqual([
    ['hibernate', 'idle', 'succeeded'],
    ['wake', 'caller', 'succeeded'],
  ])
  await house.ask(id, 'wake')
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a command in flight keeps it awake, and what ends it lets it sleep', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  const end = house.host.driver.faults.hang('exec')
  const command = house.exec(id, 'true')
  await keptBy(house, id, 'command')
  expect(await idleOf(house, id)).toMatchObject({
    sleeps_at: null,
    awake_because: [{ reason: 'command', detail: 'a command is running', until: null }],
  })
  end()
  expect((await command).status).toBe(200)
  await sleeps(house, id)
})

test('what its host knows last decides: it refuses, and nothing of that is left', async () => {
  await using house = await ground()
  const { id, generation } = await house.desktop('awake')
  const { links } = house.replica.parts
  const late = { desktopId: id, generation, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 5 }
  let refused: string | undefined
  house.failpoints.set('hibernate.save.before', async () => {
    if (refused) return
    refused = (await house.client.listOperations(id)).operations[0]!.id
    await links.command(house.host.id, 'guest.exec', late)
    await setTimeoutOf(house, longSecs, id)
  })
  await setTimeoutOf(house, 1, id)
  await waitFor('a refusal', async () => {
    await look(house, id)
    return refused
  })
  await house.settle()
  expect((await house.see(id)).state).toBe('awake')
  expect(await operationsOf(house, id)).toEqual([['wake', 'caller', 'succeeded']])
  expect((await house.api('GET', `/v1/operations/${refused}`)).status).toBe(404)
  expect((await house.exec(id, 'true')).status).toBe(200)
  await sleeps(house, id)
})

async function beginsToSleep(house: House, ...ids: string[]): Promise<void> {
  await setTimeoutOf(house, 1, ...ids)
  await waitFor('the desktops to begin to sleep', async () => {
    await look(house, ...ids)
    const seen = await Promise.all(ids.map((id) => house.see(id)))
    return seen.every(({ state }) => state === 'hibernating')
  })
  await setTimeoutOf(house, longSecs, ...ids)
}

test('who asks for something while idle or a drain hibernates it gets no 409, and it takes effect', async () => {
  await using house = await ground({ controlPlane: { operationsPerHost: 16 } })
  const kinds = ['wake', 'hibernate', 'destroy'] as const
  const ids = (await Promise.all(kinds.map(() => house.desktop('awake')))).map(({ id }) => id)
  const { id: drained, org_id: orgId } = await house.desktop('awake')
  using hibernation = held(house)
  await beginsToSleep(house, ...ids)
  const params = { key: null, fingerprint: Buffer.alloc(0), requestId: newId(), expectedGeneration: null }
  const drains = { ...params, requestedBy: 'drain', discardMemory: false } as const
  await house.replica.parts.desktops.request({ orgId }, drained, 'hibernate', drains)
  expect((await house.exec(ids[0]!, 'true')).status).toBe(409)
  const begun = await Promise.all(kinds.map((kind, i) => house.begin(ids[i]!, kind, { expected_generation: 1 })))
  for (const { kind, desktop_id: id, state, progress } of begun.slice(0, 2)) {
    expect([state, progress?.phase]).toEqual(['pending', 'waiting'])
    expect((await house.api('POST', `/v1/desktops/${id}/${kind}`)).status).toBe(409)
  }
  const behindDrain = await house.begin(drained, 'wake')
  hibernation.go()
  const states = ['awake', 'hibernated', 'destroyed'] as const
  for (const [i, { id }] of begun.entries())
    expect(await house.settled(id)).toMatchObject({ state: 'succeeded', result: { desktop_state: states[i] } })
  expect(await house.settled(behindDrain.id)).toMatchObject({ state: 'succeeded', result: { desktop_state: 'awake' } })
  await house.settle()
  for (const [i, id] of ids.entries()) {
    expect((await house.see(id)).state).toBe(states[i])
    const idle = ['hibernate', 'idle', kinds[i] === 'destroy' ? 'failed' : 'succeeded']
    expect((await operationsOf(house, id)).slice(0, 2)).toEqual([[kinds[i], 'caller', 'succeeded'], idle])
  }
})

test('what waits behind a hibernation that its host refuses takes effect, and nothing is left of that one', async () => {
  await using house = await ground()
  const { links } = house.replica.parts
  const cases = [
    ['wake', 'awake', { resumed_from: 'memory', generation: 1 }],
    ['hibernate', 'hibernated', { generation: 1 }],
  ] as const
  const ids = (await Promise.all(cases.map(() => house.desktop('awake')))).map(({ id }) => id)
  using hibernation = held(house)
  await beginsToSleep(house, ...ids)
  const begun = await Promise.all(cases.map(([kind], i) => house.begin(ids[i]!, kind)))
  for (const desktopId of ids) {
    const late = { desktopId, generation: 1, command: 'true', cwd: null, env: {}, stdin: null, timeoutSecs: 5 }
    await links.command(house.host.id, 'guest.exec', late)
  }
  house.failpoints.set('hibernate.save.before', undefined)
  hibernation.go()
  for (const [i, [, state, result]] of cases.entries())
    expect((await house.settled(begun[i]!.id)).result).toMatchObject({ desktop_state: state, ...result })
  await house.settle()
  for (const [i, [, state]] of cases.entries()) {
    expect((await house.see(ids[i]!)).state).toBe(state)
    const requesters = (await operationsOf(house, ids[i]!)).map(([, requestedBy]) => requestedBy)
    expect(requesters).toEqual(['caller', 'caller'])
  }
})

test('a wake lock holds off idle alone until it ends, and is listed, bounded and its own organisation’s', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  expect((await lock(house, id, 'build')).json).toMatchObject({ name: 'build', reason: 'a build' })
  await keptBy(house, id, 'wake_lock')
  const [rule] = await house.replica.parts.wings.idle.idle.rulesOf(house.host.id)
  expect(rule).toMatchObject({ desktopId: id, condition: { forMs: 1_000, classes: ['command', 'transfer'] } })
  expect(rule!.heldMs).toBeGreaterThan(3_000_000)
  const { awake_because: because, wake_locks: locks } = await idleOf(house, id)
  expect(locks).toMatchObject([{ name: 'build', reason: 'a build' }])
  expect(because).toMatchObject([{ reason: 'wake_lock', detail: 'wake lock "build": a build' }])
  for (let i = 1; i < 16; i++) expect((await lock(house, id, `more.${i}`, 60)).status).toBe(200)
  expect((await lock(house, id, 'build', 7_200)).json.created_at).toBe(locks[0]!.created_at)
  expect(await lock(house, id, 'one-more')).toMatchObject({ status: 409, json: { code: 'conflict' } })
  const { key } = await house.otherOrg
  expect((await lock(house, id, 'theirs', 60, key)).status).toBe(404)
  expect((await house.api('GET', `/v1/desktops/${id}/idle`, { key })).status).toBe(404)
  expect((await lock(house, id, 'too-long', 86_401)).json.field).toBe('expires_in_secs')

  await setTimeoutOf(house, longSecs, id)
  await house.database.rows(`delete from wake_locks where name like 'more.%'`)
  expect((await unlock(house, id, 'build')).json).toEqual({ wake_locks: [] })
  expect((await unlock(house, id, 'build')).status).toBe(200)
  await setTimeoutOf(house, longSecs, id)
  expect((await idleOf(house, id)).awake_because).toContainEqual(
    expect.objectContaining({ reason: 'wake_lock', detail: 'the last wake lock ended less than 1800 s ago' }),
  )
  await lock(house, id, 'short', 1)
  await sleeps(house, id)
  await house.replica.parts.wings.idle.idle.pruneLocks()
  const logged = await house.database.rows<{ type: string; name: string }>(
    `select type, data->>'name' as name from events where type like 'wake_lock.%' and data->>'name' in ('build', 'short') order by seq`,
  )
  expect(logged).toEqual([
    { type: 'wake_lock.taken', name: 'build' },
    { type: 'wake_lock.renewed', name: 'build' },
    { type: 'wake_lock.released', name: 'build' },
    { type: 'wake_lock.taken', name: 'short' },
    { type: 'wake_lock.expired', name: 'short' },
  ])
  expect((await lock(house, id, 'asleep')).status).toBe(200)
  // A caller goes before it.
  await house.ask(id, 'wake')
  await house.ask(id, 'hibernate')
  await house.ask(id, 'destroy')
  expect((await lock(house, id, 'gone')).status).toBe(409)
})

test('the policy says which activity counts, and a change of it counts itself', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  const { driver } = house.host
  driver.used.set(id, {
    get processorMs() {
      return performance.now()
    },
    networkBytes: 0,
  })
  expect((await change(house, id, { idle_timeout_secs: 600, idle_policy: ['cpu', 'command'] })).json).toMatchObject({
    idle_timeout_secs: 600,
    idle_policy: ['command', 'cpu'],
  })
  await keptBy(house, id, 'cpu')
  await setTimeoutOf(house, longSecs, id)
  expect((await change(house, id, { idle_policy: null })).json).toMatchObject({
    idle_timeout_secs: longSecs,
    idle_policy: ['command', 'transfer', 'screen', 'input'],
  })
  expect(await reasonsOf(house, id)).toContain('settings')
  await sleeps(house, id)
  await house.ask(id, 'wake')
  await change(house, id, { idle_timeout_secs: 0 })
  expect((await idleOf(house, id)).awake_because).toContainEqual(expect.objectContaining({ reason: 'never' }))
  expect((await change(house, id, { idle_timeout: 5 })).status).toBe(400)
  const { key } = await house.otherOrg
  expect((await house.api('PATCH', `/v1/desktops/${id}`, { body: { idle_timeout_secs: 5 }, key })).status).toBe(404)
})

test('who types keeps it awake, who only watches does not', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  const typist = await screen(house, id, 'control')
  const viewer = await screen(house, id, 'view')
  await Promise.all([typist.frame(), viewer.frame()])
  const screenOf = async () => (await idleOf(house, id)).activity.find((one) => one.class === 'screen')!
  viewer.type(0x61)
  typist.ask()
  await typist.frame()
  expect((await screenOf()).last_at).toBeNull()
  typist.type(0x61)
  await waitFor('the input to be noted', async () => (await screenOf()).last_at)
  await keptBy(house, id, 'screen')
  await house.database.rows(`update desktop_activity set at = now() - interval '1 minute'`)
  await sleeps(house, id)
})

test('a new leader goes on with what has begun, and a desktop whose save fails is left alone for a while', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  house.repeating('hibernate', ['save'])
  await sleeps(house, id)
  expect((await operationsOf(house, id))[0]).toEqual(['hibernate', 'idle', 'succeeded'])
  await house.ask(id, 'wake')
  house.host.driver.faults.failNext('save', 1, 'host_disk_full')
  await setTimeoutOf(house, 1, id)
  await waitFor('a failure', async () => {
    await house.replica.parts.wings.idle.idle.runner.look()
    return (await operationsOf(house, id)).some(([, , state]) => state === 'failed')
  })
  await house.settle()
  const [{ later }] = (await house.database.rows<{ later: boolean }>(
    `select idle_look_at > now() + interval '30 seconds' as later from desktops where id = '${id}'`,
  )) as [{ later: boolean }]
  expect(later).toBe(true)
  expect((await house.see(id)).state).toBe('awake')
})

test('idle time counts from the time at which it is switched on', async () => {
  await using house = await ground({ controlPlane: { idle: 'off' } })
  const { id } = await house.desktop('awake')
  await setTimeoutOf(house, 1, id)
  await waitFor('its wake to be long ago', async () => `${await reasonsOf(house, id)}` === 'off')
  await house.database.rows(`update installation set idle_from = now() - interval '1 hour'`)
  const restarted = () =>
    house.database.rows(`select 1 from installation where idle_from > now() - interval '1 minute'`)
  await waitFor('the time to be restarted', async () => (await restarted()).length)
  expect((await house.see(id)).state).toBe('awake')
  await house.restartControlPlane({ idle: 'on' })
  await sleeps(house, id)
})

test('an agent that has just started, or reports no activity, lets nothing fall asleep', async () => {
  await using house = await ground()
  const { id } = await house.desktop('awake')
  await house.killAgent()
  expect(await idleOf(house, id)).toMatchObject({ sleeps_at: null })
  expect(await reasonsOf(house, id)).toContain('host')
  await setTimeoutOf(house, 1, id)
  await look(house, id)
  expect((await house.see(id)).state).toBe('awake')
  await setTimeoutOf(house, longSecs, id)
  await house.restartAgent()
  await waitFor('its time to count from then', async () => (await idleOf(house, id)).sleeps_at)
  expect(await reasonsOf(house, id)).toContain('host')
  await sleeps(house, id)
})

// Guarantee: a desktop that nobody uses hibernates after its timeout, one that is used never does, and its idle view says why.
import type { IdleJson, StreamClaim, StreamJson } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { wholeOrg } from '@dormouse/control-plane/principals/scope.ts'
import { expect, test } from 'vitest'
import { Stack, type StackOptions } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { RfbClient } from './parts/rfb-client.ts'

const agent = { activityEveryMs: 100 }
/** The default. A test shortens it if the desktop is to fall asleep, so that none does so earlier on a slow machine. */
const longSecs = 1_800

const testbed = (options: StackOptions = {}) => Stack.start({ agent, ...options })

async function idleOf(stack: Stack, id: string): Promise<IdleJson> {
  const { status, json } = await stack.api('GET', `/v1/desktops/${id}/idle`)
  expect(status).toBe(200)
  return json as IdleJson
}

const reasonsOf = async (stack: Stack, id: string) =>
  (await idleOf(stack, id)).awake_because.map(({ reason }) => reason).sort()

const setTimeoutOf = (stack: Stack, secs: number, ...ids: string[]) =>
  stack.database.rows('update desktops set idle_timeout_secs = $1, idle_look_at = now() where id = any($2)', [
    secs,
    ids,
  ])

/** With a timeout of one second nothing else keeps the desktop awake in the end. The leader looks once more. */
async function keptBy(stack: Stack, id: string, ...reasons: string[]): Promise<void> {
  await setTimeoutOf(stack, 1, id)
  await waitFor(`only ${reasons} to keep it awake`, async () => `${await reasonsOf(stack, id)}` === `${reasons}`)
  await look(stack, id)
  expect((await stack.see(id)).state).toBe('awake')
}

async function look(stack: Stack, ...ids: string[]): Promise<void> {
  for (const id of ids) await stack.database.rows('update desktops set idle_look_at = now() where id = $1', [id])
  await stack.replica.parts.wings.idle.idle.runner.look()
}

/** The leader looks until the desktop has fallen asleep, after a second. */
async function sleeps(stack: Stack, id: string): Promise<void> {
  await setTimeoutOf(stack, 1, id)
  await waitFor('the desktop to fall asleep', async () => {
    await look(stack, id)
    return (await stack.see(id)).state !== 'awake'
  })
  await stack.becomes(id, 'hibernated')
}

const operationsOf = async (stack: Stack, id: string) =>
  (await stack.client.listOperations(id)).operations.map(({ kind, requested_by, state }) => [kind, requested_by, state])

const change = (stack: Stack, id: string, body: object) => stack.api('PATCH', `/v1/desktops/${id}`, { body })
const lock = (stack: Stack, id: string, name: string, expires_in_secs = 3_600, key = stack.org.key) =>
  stack.api('PUT', `/v1/desktops/${id}/wake-locks/${name}`, { body: { reason: 'a build', expires_in_secs }, key })
const unlock = (stack: Stack, id: string, name: string) => stack.api('DELETE', `/v1/desktops/${id}/wake-locks/${name}`)

async function screen(stack: Stack, id: string, claim: StreamClaim): Promise<RfbClient> {
  const { json } = await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim } })
  return RfbClient.connect((json as StreamJson).websocket_url)
}

/** Holds the next hibernation right before its host is asked. */
function held(stack: Stack) {
  const go = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  stack.failpoints.set('hibernate.save.before', () => {
    reached.resolve()
    return go.promise
  })
  return { reached: reached.promise, go: go.resolve, [Symbol.dispose]: () => go.resolve() }
}

test('it hibernates by an operation like any other, reads keep it not awake, and a wake brings everything back', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  const awake = { state: 'awake', idle_timeout_secs: longSecs, idle_policy: ['command', 'transfer', 'screen', 'input'] }
  expect(
    await waitFor('its time', async () => ((seen) => seen.sleeps_at && seen)(await idleOf(stack, id))),
  ).toMatchObject(awake)
  await setTimeoutOf(stack, 1, id)
  await waitFor('the desktop to fall asleep', async () => {
    await look(stack, id)
    await stack.api('GET', `/v1/desktops/${id}/screenshot`)
    await stack.api('GET', '/v1/desktops')
    return (await idleOf(stack, id)).state === 'hibernated'
  })
  await stack.settle()
  expect(await idleOf(stack, id)).toMatchObject({
    awake_because: [],
    sleeps_at: null,
    activity: [{ class: 'command', counts: true, now: false }, {}, {}, {}, {}, { class: 'network', counts: false }],
  })
  expect(await operationsOf(stack, id)).toEqual([
    ['hibernate', 'idle', 'succeeded'],
    ['wake', 'caller', 'succeeded'],
  ])
  await stack.ask(id, 'wake')
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a command in flight keeps it awake, and what ends it lets it sleep', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  const end = stack.host.driver.faults.hang('exec')
  const command = stack.exec(id, 'true')
  await keptBy(stack, id, 'command')
  expect(await idleOf(stack, id)).toMatchObject({
    sleeps_at: null,
    awake_because: [{ reason: 'command', detail: 'a command is running', until: null }],
  })
  end()
  expect((await command).status).toBe(200)
  await sleeps(stack, id)
})

const trueExec = { call: 'exec', body: { command: 'true', timeout_secs: 5 }, timeoutSecs: 5 } as const

test('what its host knows last decides: it refuses, and nothing of that is left', async () => {
  await using stack = await testbed()
  const { id, generation } = await stack.desktop('awake')
  const { links } = stack.replica.parts
  const late = { desktopId: id, generation, ...trueExec }
  let refused: string | undefined
  stack.failpoints.set('hibernate.save.before', async () => {
    if (refused) return
    refused = (await stack.client.listOperations(id)).operations[0]!.id
    await links.command(stack.host.id, 'guest.call', late)
    await setTimeoutOf(stack, longSecs, id)
  })
  await setTimeoutOf(stack, 1, id)
  await waitFor('a refusal', async () => {
    await look(stack, id)
    return refused
  })
  await stack.settle()
  expect((await stack.see(id)).state).toBe('awake')
  expect(await operationsOf(stack, id)).toEqual([['wake', 'caller', 'succeeded']])
  expect((await stack.api('GET', `/v1/operations/${refused}`)).status).toBe(404)
  expect((await stack.exec(id, 'true')).status).toBe(200)
  await sleeps(stack, id)
})

async function beginsToSleep(stack: Stack, ...ids: string[]): Promise<void> {
  await setTimeoutOf(stack, 1, ...ids)
  await waitFor('the desktops to begin to sleep', async () => {
    await look(stack, ...ids)
    const seen = await Promise.all(ids.map((id) => stack.see(id)))
    return seen.every(({ state }) => state === 'hibernating')
  })
  await setTimeoutOf(stack, longSecs, ...ids)
}

test('who asks for something while idle or a drain hibernates it gets no 409, and it takes effect', async () => {
  await using stack = await testbed({ controlPlane: { operationsPerHost: 16 } })
  const kinds = ['wake', 'hibernate', 'destroy'] as const
  const ids = (await Promise.all(kinds.map(() => stack.desktop('awake')))).map(({ id }) => id)
  const { id: drained, org_id: orgId } = await stack.desktop('awake')
  using hibernation = held(stack)
  await beginsToSleep(stack, ...ids)
  const params = { key: null, fingerprint: Buffer.alloc(0), requestId: newId(), expectedGeneration: null }
  const drains = { ...params, requestedBy: 'drain', discardMemory: false } as const
  await stack.replica.parts.desktops.request(wholeOrg(orgId), drained, 'hibernate', drains)
  expect((await stack.exec(ids[0]!, 'true')).status).toBe(409)
  const begun = await Promise.all(kinds.map((kind, i) => stack.begin(ids[i]!, kind, { expected_generation: 1 })))
  for (const { kind, desktop_id: id, state, progress } of begun.slice(0, 2)) {
    expect([state, progress?.phase]).toEqual(['pending', 'waiting'])
    expect((await stack.api('POST', `/v1/desktops/${id}/${kind}`)).status).toBe(409)
  }
  const behindDrain = await stack.begin(drained, 'wake')
  hibernation.go()
  const states = ['awake', 'hibernated', 'destroyed'] as const
  for (const [i, { id }] of begun.entries())
    expect(await stack.settled(id)).toMatchObject({ state: 'succeeded', result: { desktop_state: states[i] } })
  expect(await stack.settled(behindDrain.id)).toMatchObject({ state: 'succeeded', result: { desktop_state: 'awake' } })
  await stack.settle()
  for (const [i, id] of ids.entries()) {
    expect((await stack.see(id)).state).toBe(states[i])
    const idle = ['hibernate', 'idle', kinds[i] === 'destroy' ? 'failed' : 'succeeded']
    expect((await operationsOf(stack, id)).slice(0, 2)).toEqual([[kinds[i], 'caller', 'succeeded'], idle])
  }
})

test('what waits behind a hibernation that its host refuses takes effect, and nothing is left of that one', async () => {
  await using stack = await testbed()
  const { links } = stack.replica.parts
  const cases = [
    ['wake', 'awake', { resumed_from: 'memory', generation: 1 }],
    ['hibernate', 'hibernated', { generation: 1 }],
  ] as const
  const ids = (await Promise.all(cases.map(() => stack.desktop('awake')))).map(({ id }) => id)
  using hibernation = held(stack)
  await beginsToSleep(stack, ...ids)
  const begun = await Promise.all(cases.map(([kind], i) => stack.begin(ids[i]!, kind)))
  for (const desktopId of ids) {
    const late = { desktopId, generation: 1, ...trueExec }
    await links.command(stack.host.id, 'guest.call', late)
  }
  stack.failpoints.set('hibernate.save.before', undefined)
  hibernation.go()
  for (const [i, [, state, result]] of cases.entries())
    expect((await stack.settled(begun[i]!.id)).result).toMatchObject({ desktop_state: state, ...result })
  await stack.settle()
  for (const [i, [, state]] of cases.entries()) {
    expect((await stack.see(ids[i]!)).state).toBe(state)
    const requesters = (await operationsOf(stack, ids[i]!)).map(([, requestedBy]) => requestedBy)
    expect(requesters).toEqual(['caller', 'caller'])
  }
})

test('a wake lock holds off idle alone until it ends, and is listed, bounded and its own organisation’s', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  expect((await lock(stack, id, 'build')).json).toMatchObject({ name: 'build', reason: 'a build' })
  await keptBy(stack, id, 'wake_lock')
  const [rule] = await stack.replica.parts.wings.idle.idle.rulesOf(stack.host.id)
  expect(rule).toMatchObject({ desktopId: id, condition: { forMs: 1_000, classes: ['command', 'transfer'] } })
  expect(rule!.heldMs).toBeGreaterThan(3_000_000)
  const { awake_because: because, wake_locks: locks } = await idleOf(stack, id)
  expect(locks).toMatchObject([{ name: 'build', reason: 'a build' }])
  expect(because).toMatchObject([{ reason: 'wake_lock', detail: 'wake lock "build": a build' }])
  for (let i = 1; i < 16; i++) expect((await lock(stack, id, `more.${i}`, 60)).status).toBe(200)
  expect((await lock(stack, id, 'build', 7_200)).json.created_at).toBe(locks[0]!.created_at)
  expect(await lock(stack, id, 'one-more')).toMatchObject({ status: 409, json: { code: 'conflict' } })
  const { key } = await stack.otherOrg
  expect((await lock(stack, id, 'theirs', 60, key)).status).toBe(404)
  expect((await stack.api('GET', `/v1/desktops/${id}/idle`, { key })).status).toBe(404)
  expect((await lock(stack, id, 'too-long', 86_401)).json.field).toBe('expires_in_secs')

  await setTimeoutOf(stack, longSecs, id)
  await stack.database.rows(`delete from wake_locks where name like 'more.%'`)
  expect((await unlock(stack, id, 'build')).json).toEqual({ wake_locks: [] })
  expect((await unlock(stack, id, 'build')).status).toBe(200)
  await setTimeoutOf(stack, longSecs, id)
  expect((await idleOf(stack, id)).awake_because).toContainEqual(
    expect.objectContaining({ reason: 'wake_lock', detail: 'the last wake lock ended less than 1800 s ago' }),
  )
  await lock(stack, id, 'short', 1)
  await sleeps(stack, id)
  await stack.replica.parts.wings.idle.idle.pruneLocks()
  const logged = await stack.database.rows<{ type: string; name: string }>(
    `select type, data->>'name' as name from events where type like 'wake_lock.%' and data->>'name' in ('build', 'short') order by seq`,
  )
  expect(logged).toEqual([
    { type: 'wake_lock.taken', name: 'build' },
    { type: 'wake_lock.renewed', name: 'build' },
    { type: 'wake_lock.released', name: 'build' },
    { type: 'wake_lock.taken', name: 'short' },
    { type: 'wake_lock.expired', name: 'short' },
  ])
  expect((await lock(stack, id, 'asleep')).status).toBe(200)
  // A caller goes before it.
  await stack.ask(id, 'wake')
  await stack.ask(id, 'hibernate')
  await stack.ask(id, 'destroy')
  expect((await lock(stack, id, 'gone')).status).toBe(409)
})

test('the policy says which activity counts, and a change of it counts itself', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  const { driver } = stack.host
  driver.used.set(id, {
    get processorMs() {
      return performance.now()
    },
    networkBytes: 0,
  })
  expect((await change(stack, id, { idle_timeout_secs: 600, idle_policy: ['cpu', 'command'] })).json).toMatchObject({
    idle_timeout_secs: 600,
    idle_policy: ['command', 'cpu'],
  })
  await keptBy(stack, id, 'cpu')
  await setTimeoutOf(stack, longSecs, id)
  expect((await change(stack, id, { idle_policy: null })).json).toMatchObject({
    idle_timeout_secs: longSecs,
    idle_policy: ['command', 'transfer', 'screen', 'input'],
  })
  expect(await reasonsOf(stack, id)).toContain('settings')
  await sleeps(stack, id)
  await stack.ask(id, 'wake')
  await change(stack, id, { idle_timeout_secs: 0 })
  expect((await idleOf(stack, id)).awake_because).toContainEqual(expect.objectContaining({ reason: 'never' }))
  expect((await change(stack, id, { idle_timeout: 5 })).status).toBe(400)
  const { key } = await stack.otherOrg
  expect((await stack.api('PATCH', `/v1/desktops/${id}`, { body: { idle_timeout_secs: 5 }, key })).status).toBe(404)
})

test('who types keeps it awake, who only watches does not', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  const typist = await screen(stack, id, 'control')
  const viewer = await screen(stack, id, 'view')
  await Promise.all([typist.frame(), viewer.frame()])
  const screenOf = async () => (await idleOf(stack, id)).activity.find((one) => one.class === 'screen')!
  viewer.type(0x61)
  typist.ask()
  await typist.frame()
  expect((await screenOf()).last_at).toBeNull()
  typist.type(0x61)
  await waitFor('the input to be noted', async () => (await screenOf()).last_at)
  await keptBy(stack, id, 'screen')
  await stack.database.rows(`update desktop_activity set at = now() - interval '1 minute'`)
  await sleeps(stack, id)
})

test('a new leader goes on with what has begun, and a desktop whose save fails is left alone for a while', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  stack.repeating('hibernate', ['save'])
  await sleeps(stack, id)
  expect((await operationsOf(stack, id))[0]).toEqual(['hibernate', 'idle', 'succeeded'])
  await stack.ask(id, 'wake')
  stack.host.driver.faults.failNext('save', 1, 'host_disk_full')
  await setTimeoutOf(stack, 1, id)
  await waitFor('a failure', async () => {
    await stack.replica.parts.wings.idle.idle.runner.look()
    return (await operationsOf(stack, id)).some(([, , state]) => state === 'failed')
  })
  await stack.settle()
  const [{ later }] = (await stack.database.rows<{ later: boolean }>(
    `select idle_look_at > now() + interval '30 seconds' as later from desktops where id = '${id}'`,
  )) as [{ later: boolean }]
  expect(later).toBe(true)
  expect((await stack.see(id)).state).toBe('awake')
})

test('idle time counts from the time at which it is switched on', async () => {
  await using stack = await testbed({ controlPlane: { idle: 'off' } })
  const { id } = await stack.desktop('awake')
  await setTimeoutOf(stack, 1, id)
  await waitFor('its wake to be long ago', async () => `${await reasonsOf(stack, id)}` === 'off')
  await stack.database.rows(`update installation set idle_from = now() - interval '1 hour'`)
  const restarted = () =>
    stack.database.rows(`select 1 from installation where idle_from > now() - interval '1 minute'`)
  await waitFor('the time to be restarted', async () => (await restarted()).length)
  expect((await stack.see(id)).state).toBe('awake')
  await stack.restartControlPlane({ idle: 'on' })
  await sleeps(stack, id)
})

test('an agent that has just started, or reports no activity, lets nothing fall asleep', async () => {
  await using stack = await testbed()
  const { id } = await stack.desktop('awake')
  await stack.killAgent()
  expect(await idleOf(stack, id)).toMatchObject({ sleeps_at: null })
  expect(await reasonsOf(stack, id)).toContain('host')
  await setTimeoutOf(stack, 1, id)
  await look(stack, id)
  expect((await stack.see(id)).state).toBe('awake')
  await setTimeoutOf(stack, longSecs, id)
  await stack.restartAgent()
  await waitFor('its time to count from then', async () => (await idleOf(stack, id)).sleeps_at)
  expect(await reasonsOf(stack, id)).toContain('host')
  await sleeps(stack, id)
})

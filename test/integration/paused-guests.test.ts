// Guarantee: whatever stands an awake desktop's guest still, every request gets the same truth: it hibernates with its memory, and
// a wake brings it back. docs/decisions/0099 has the table.
import { createAdminClient } from '@dormouse/client'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'
import { beginMove, movingAgent } from './parts/moved.ts'

let stack: Stack
let operatorKey: string
beforeAll(async () => {
  stack = await Stack.start({ hosts: 2, agent: movingAgent })
  operatorKey = await stack.replica.parts.principals.createOperatorKey('pauses')
  stack.secrets.learn('the operator’s key', operatorKey)
})
afterAll(() => stack[Symbol.asyncDispose]())

const overtakenBySleep = /^the desktop is hibernat(ing|ed); wake it, then repeat the request$/

type How = Parameters<Host['driver']['standStill']>[1]

async function still(how: How) {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  const host = await stack.hostOf(id)
  host.driver.standStill(id, how)
  return { id, host }
}

const request = (id: string, verb: string) => stack.api('POST', `/v1/desktops/${id}/${verb}?wait=true`)

async function wakesWithMemory(id: string): Promise<void> {
  const woken = await request(id, 'wake')
  expect([woken.status, woken.json]).toMatchObject([200, { state: 'succeeded', result: { resumed_from: 'memory' } }])
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
}

/** The service may have let its guest run again. A desktop that only sleeps may have moved asleep. */
async function isBack(id: string): Promise<void> {
  expect((await stack.see(id)).state).not.toBe('stopped')
  // Between the two calls it may begin to run again by itself.
  await waitFor('the guest to be back', async () => {
    const { status } = await stack.exec(id, 'true')
    return status === 200 || (await request(id, 'wake')).status === 200
  })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
}

const requesters = async (id: string) =>
  (await stack.api('GET', `/v1/desktops/${id}/operations`)).json.operations
    .filter(({ kind }: { kind: string }) => kind === 'hibernate')
    .map(({ requested_by }: { requested_by: string }) => requested_by)

describe.each(['memory', 'idle', 'paused'] as const)('a guest that stands still: %s', (how) => {
  test('every call to it is refused, a wake is its way back, and it was never stopped', async () => {
    const { id } = await still(how)
    const calls = [
      ['POST', 'exec', { command: 'true' }],
      ['POST', 'execs', { command: 'true' }],
      ['GET', 'files/tmp/word'],
      ['GET', 'entries?path=/tmp'],
    ] as const
    const call = ([method, path, body]: (typeof calls)[number]) =>
      stack.api(method, `/v1/desktops/${id}/${path}`, body && { body })
    for (const { status, json } of await Promise.all(calls.map(call))) {
      // Its host lets a guest that has suspended itself run for a moment before it saves it: what waited may get through.
      if (how === 'memory' && status < 300) continue
      // A start that its guest may have got says so, and what to read.
      expect([status, json.code, json.detail]).toEqual(
        json.code === 'exec_interrupted'
          ? [
              409,
              'exec_interrupted',
              expect.stringMatching(
                /; (read exec \S+ before you start|check what it has done before you run) it again/,
              ),
            ]
          : // The host's hibernation has overtaken the call.
            status === 503
            ? [503, 'guest_unavailable', expect.stringMatching(overtakenBySleep)]
            : [
                409,
                expect.stringMatching(/^(guest_suspended|not_awake)$/),
                expect.stringMatching(/; wake it( first)?$/),
              ],
      )
    }
    await wakesWithMemory(id)
    expect(await requesters(id)).toEqual(['host'])
  })

  test('a wake at once brings it back', async () => {
    const { id } = await still(how)
    await wakesWithMemory(id)
    const { operations } = (await stack.api('GET', `/v1/desktops/${id}/operations`)).json
    // The wake is the older one if the host's report came between it and the desktop's lock.
    expect(operations.map(({ kind }: { kind: string }) => kind).sort()).toEqual(['hibernate', 'wake', 'wake'])
  })

  test('a hibernation keeps its memory', async () => {
    const { id } = await still(how)
    // Its host may have begun one.
    expect([200, 409]).toContain((await request(id, 'hibernate')).status)
    await stack.becomes(id, 'hibernated')
    await wakesWithMemory(id)
  })

  test('a destroy leaves nothing', async () => {
    const { id, host } = await still(how)
    expect((await request(id, 'destroy')).json).toMatchObject({ state: 'succeeded', result: { cleanup: 'done' } })
    expect(await host.holds(id)).toEqual({ domain: 'absent', disk: false })
  })

  test('a move never counts it as stopped', async () => {
    const { id } = await still(how)
    const operation = await beginMove(stack, id).catch(() => undefined)
    if (operation) await stack.settled(operation.id)
    await stack.settle()
    await isBack(id)
  })

  test('a drain takes it away with its memory', async () => {
    const { id, host } = await still(how)
    const admin = createAdminClient({ baseUrl: stack.url, operatorKey })
    const { id: drainId } = await admin.drainHost(host.id, { grace_secs: 0 })
    const ended = await waitFor('the drain to end', async () => {
      const seen = await admin.getDrain(drainId!)
      return seen.settled_at !== null && seen
    })
    await admin.uncordonHost(host.id)
    expect(ended).toMatchObject({ state: 'drained' })
    await isBack(id)
  })

  test.each(['agent', 'control plane'] as const)('a restart of the %s forgets nothing', async (what) => {
    const { id, host } = await still(how)
    if (what === 'agent') await host.restart()
    else await stack.restartControlPlane()
    await stack.linked(host)
    await wakesWithMemory(id)
  })
})

const overtaken = [
  ['a read of a file', 'readFile', 'GET', 'files/srv/word'],
  ['a write of a file', 'writeFile', 'PUT', 'files/srv/word'],
  ['a short exec', 'exec', 'POST', 'exec'],
  ['an exec', 'supervise', 'POST', 'execs'],
] as const

test.each(overtaken)('%s that a hibernation overtakes says so', async (_, operation, method, path) => {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'word')
  const { faults } = (await stack.hostOf(id)).driver
  const before = faults.counts[operation] ?? 0
  const release = faults.hang(operation)
  const body = method === 'POST' ? { command: 'cat /tmp/word' } : method === 'PUT' ? Buffer.from('word') : undefined
  const call = stack.api(method, `/v1/desktops/${id}/${path}`, body && { body })
  await waitFor('the call to reach the guest', () => (faults.counts[operation] ?? 0) > before)
  expect((await request(id, 'hibernate')).status).toBe(200)
  release()
  const { status, json } = await call
  expect([status, json.code, json.detail]).toEqual(
    json.code === 'exec_interrupted'
      ? [409, 'exec_interrupted', expect.stringContaining('may have begun')]
      : [503, 'guest_unavailable', expect.stringMatching(overtakenBySleep)],
  )
})

test('a wake that a hibernation overtakes while its host is asked is carried out', async () => {
  const { id, host } = await still('idle')
  const { faults } = host.driver
  const release = faults.hang('isAsleep')
  const before = faults.counts.isAsleep ?? 0
  const woken = request(id, 'wake')
  await waitFor('its host to be asked', () => (faults.counts.isAsleep ?? 0) > before)
  expect((await request(id, 'hibernate')).status).toBe(200)
  release()
  expect(await woken).toMatchObject({ status: 200, json: { state: 'succeeded', result: { resumed_from: 'memory' } } })
})

test('a host hibernates such a desktop unasked, and a save that fails lets it run on', async () => {
  const { id, host } = await still('memory')
  await stack.becomes(id, 'hibernated')
  await wakesWithMemory(id)
  host.driver.faults.failNext('save', 1)
  host.driver.standStill(id, 'memory')
  await waitFor('a hibernation to fail', async () => (await stack.causes(id)).some((cause) => cause !== null))
  expect(await stack.becomes(id, 'awake')).toMatchObject({ state: 'awake' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('one whose disk is full stays awake, says so to its caller, and goes on when there is space', async () => {
  const { id, host } = await still('space')
  host.driver.faults.diskFull = true
  const told = await stack.exec(id, 'true')
  expect([told.status, told.json.code]).toEqual([503, 'guest_unavailable'])
  expect((await request(id, 'wake')).status).toBe(409)
  expect((await stack.see(id)).state).toBe('awake')
  host.driver.faults.diskFull = false
  await waitFor('it to go on', async () => (await stack.exec(id, 'true')).status === 200)
  expect(await requesters(id)).toEqual([])
})

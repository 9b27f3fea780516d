// Guarantee: a call that finds its desktop asleep wakes it, goes on and says so, if the desktop or the call wants that, and no call
// otherwise; any number of calls on any replica are one wake.
import type { OperationJson } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { type ApiWish, send } from './parts/api.ts'
import { ExecClient } from './parts/exec-client.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start({ replicas: 2 })
  stack.host.driver.faults.keyboard = { layout: 'us', clipboard: true }
})
afterAll(() => stack[Symbol.asyncDispose]())

const allow = { 'dormouse-wake': 'allow' }

/** A request to the replica that leads, or to the other one. */
const ask = (method: string, path: string, wish: ApiWish = {}, at = 0) =>
  send(stack.replicas[at]!.url + path, method, { key: stack.org.key, ...wish })

const run = (id: string, wish: ApiWish = {}, at = 0) =>
  ask('POST', `/v1/desktops/${id}/exec`, { body: { command: 'echo hi' }, ...wish }, at)

const wakesOf = async (id: string): Promise<OperationJson[]> =>
  (await stack.client.listOperations(id)).operations.filter(({ kind }) => kind === 'wake')

/** Holds operations at that point until it is called. */
function hold(point: string): () => void {
  const go = Promise.withResolvers<void>()
  stack.failpoints.set(point, () => go.promise)
  return () => {
    stack.failpoints.set(point, undefined)
    go.resolve()
  }
}

test('is off: the answer of a desktop that sleeps is the one of before, and a call may refuse what its desktop allows', async () => {
  const { id, wake_on } = await stack.desktop('hibernated')
  expect(wake_on).toEqual([])
  const plain = await run(id)
  expect([plain.status, plain.headers['dormouse-woke'], plain.json]).toEqual([
    409,
    undefined,
    {
      ...{ type: 'about:blank', title: 'Conflict', status: 409, code: 'not_awake', state: 'hibernated' },
      detail: 'the desktop is hibernated; wake it first',
    },
  ])
  const changed = await ask('PATCH', `/v1/desktops/${id}`, { body: { wake_on: ['files', 'exec', 'exec'] } })
  expect(changed.json.wake_on).toEqual(['exec', 'files'])
  const refused = await run(id, { headers: { 'dormouse-wake': 'never' } })
  expect([refused.status, refused.text]).toEqual([plain.status, plain.text])
  expect((await ask('GET', `/v1/desktops/${id}/screen`)).json).toMatchObject({ code: 'not_awake' })
  for (const header of ['Allow', 'yes', ''])
    expect((await run(id, { headers: { 'dormouse-wake': header } })).json).toMatchObject({ field: 'Dormouse-Wake' })
  for (const wake_on of ['exec', ['all']])
    expect((await ask('PATCH', `/v1/desktops/${id}`, { body: { wake_on } })).json.field ?? '').toMatch(/^wake_on/)
  expect(await wakesOf(id)).toHaveLength(1)
})

test('reads of the service’s own records wake nothing', async () => {
  const { id } = await stack.desktop('hibernated', { wake_on: ['exec', 'files', 'input', 'screen', 'ports'] })
  const wakes = await wakesOf(id)
  for (const path of ['', '/idle', '/operations', '/file-urls', '/wake-locks'])
    expect((await ask('GET', `/v1/desktops/${id}${path}`, { headers: allow })).headers).not.toHaveProperty(
      'dormouse-woke',
    )
  for (const path of ['desktops', 'events?limit=1', 'usage', `operations/${wakes[0]!.id}`])
    await ask('GET', `/v1/${path}`, { headers: allow })
  expect(await wakesOf(id)).toEqual(wakes)
  expect((await stack.see(id)).state).toBe('hibernated')
})

describe('many callers', () => {
  test.each(['created', 'hibernated', 'stopped'] as const)('on two replicas wake a %s desktop once', async (state) => {
    const { id } = await stack.desktop(state, { wake_on: ['exec', 'files'] })
    const before = (await wakesOf(id)).length
    const calls = Array.from({ length: 60 }, (_, i) =>
      i % 3 === 2
        ? ask('PUT', `/v1/desktops/${id}/files/tmp/f${i}`, { body: 'text' }, i % 2)
        : run(id, i % 6 === 4 ? { headers: { 'idempotency-key': `k${i}` } } : {}, i % 2),
    )
    const answers = await Promise.all(calls)
    expect(answers.map(({ status, text }) => (status === 200 ? 200 : text))).toEqual(answers.map(() => 200))
    const told = answers.filter(({ headers }) => headers['dormouse-woke'] !== undefined)
    expect(told.length).toBeGreaterThan(0)
    for (const { json, headers } of told) {
      expect(headers['dormouse-woke']).toBe(`path=${json.woke.path}; ms=${json.woke.ms}`)
      expect(headers).not.toHaveProperty('idempotency-replayed')
    }
    const [wake, ...earlier] = await wakesOf(id)
    expect([earlier.length, wake!.requested_by]).toEqual([before, 'caller'])
    expect(told[0]!.json.woke.path).toBe(wake!.result!.path)
    const again = await run(id)
    expect([again.json.stdout, again.json.woke, again.headers['dormouse-woke']]).toEqual(['hi\n', undefined, undefined])
  })

  test('behind a hibernation wait for it, and go on', async () => {
    const { id } = await stack.desktop('awake', { wake_on: ['exec'] })
    const release = hold('hibernate.save.before')
    const slept = await stack.begin(id, 'hibernate')
    const calls = Promise.all([0, 1, 0, 1].map((at) => run(id, {}, at)))
    await expect.poll(async () => (await wakesOf(id)).length).toBe(2)
    release()
    expect((await calls).map(({ json }) => json.stdout)).toEqual(Array(4).fill('hi\n'))
    expect(await stack.operation(slept.id)).toMatchObject({ state: 'succeeded' })
    expect(await wakesOf(id)).toHaveLength(2)
  })

  test('get the refusal of a wake that fails, each the same, and the next call tries again', async () => {
    const { id } = await stack.desktop('hibernated')
    stack.host.driver.faults.failNext('restorePaused', 1_000, 'memory_image_damaged')
    const failed = await Promise.all([0, 1, 0, 1].map((at) => run(id, { headers: allow }, at)))
    stack.host.driver.faults.failNext('restorePaused', 0)
    const [operation] = await wakesOf(id)
    for (const { status, json } of failed)
      expect([status, json.code, json.cause_code]).toEqual([409, 'operation_failed', 'memory_image_damaged'])
    expect(failed.map(({ json }) => json.operation_id)).toContain(operation!.id)
    expect((await run(id, { headers: allow })).json).toMatchObject({ stdout: 'hi\n', woke: { path: 'restore' } })
  })
})

describe('each class', () => {
  const one = async (wake_on: string[]) => (await stack.desktop('hibernated', { wake_on })).id
  const text = { 'content-type': 'application/octet-stream' }

  test.each<[string, string, string, ApiWish, number, number?]>([
    ['exec', 'GET', 'execs', {}, 200],
    ['exec', 'POST', 'execs', { body: { command: 'true' } }, 201, 0],
    ['files', 'PUT', 'files/tmp/a', { body: 'a', headers: text }, 200],
    ['files', 'GET', 'entries?path=/', {}, 200],
    ['files', 'GET', 'files/none', {}, 404],
    ['files', 'POST', 'uploads?path=/tmp/u', { body: 'part', headers: { ...text, 'upload-complete': '?1' } }, 201, 0],
    ['files', 'PUT', 'archives/tmp/x', { body: new Uint8Array(10_240), headers: text }, 200],
    ['files', 'GET', 'watch?path=/tmp', {}, 200],
    ['input', 'POST', 'input', { body: { actions: [{ type: 'key', keys: ['a'] }] } }, 200],
    ['input', 'GET', 'clipboard', {}, 200],
    ['screen', 'GET', 'screenshot', {}, 200],
    ['screen', 'GET', 'screen', {}, 200],
    ['screen', 'POST', 'stream', { body: { claim: 'view' } }, 200],
  ])(
    '%s: %s %s wakes if the class is named, and the answer tells it',
    async (name, method, path, wish, status, at = 1) => {
      const [other, id] = await Promise.all([one(name === 'exec' ? ['files'] : ['exec']), one([name])])
      expect((await ask(method, `/v1/desktops/${other}/${path}`, wish, at)).json).toMatchObject({ code: 'not_awake' })
      const answer = await ask(method, `/v1/desktops/${id}/${path}`, wish, at)
      expect([answer.status, answer.headers['dormouse-woke']]).toEqual([
        status,
        expect.stringMatching(/^path=\w+; ms=\d+$/),
      ])
      if (status < 300 && String(answer.headers['content-type']).includes('json'))
        expect(answer.json.woke).toEqual({ path: expect.any(String), ms: expect.any(Number) })
    },
  )

  test('a WebSocket of an exec wakes, too, and says so first; a browser’s can refuse', async () => {
    const { id } = await stack.desktop('awake', { wake_on: ['exec'] })
    const { json } = await ask('POST', `/v1/desktops/${id}/execs`, { body: { command: 'cat', stdin: true } })
    await stack.ask(id, 'hibernate')
    const url = `${stack.replicas[1]!.url}/v1/desktops/${id}/execs/${json.id}/attach`
    for (const [wish, status] of [
      ['never', 409],
      ['yes', 400],
    ] as const)
      expect((await new ExecClient(url, stack.org.key, [`dormouse.wake.${wish}`]).closed).code).toBe(status)
    const socket = new ExecClient(url, stack.org.key)
    const headers = Promise.withResolvers<unknown>()
    socket.socket.once('upgrade', (response) => headers.resolve(response.headers['dormouse-woke']))
    const { attached } = await socket.note('attached')
    expect(await headers.promise).toBe(`path=${attached.woke!.path}; ms=${attached.woke!.ms}`)
    socket.type('x')
    await socket.heard('x')
    socket.socket.terminate()
  })
})

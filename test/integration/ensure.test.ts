// Guarantee: a request with `ensure` brings its result whatever is in progress, with as little as that takes, and tells by which
// operation.
import { Desktop } from '@dormouse/client'
import type { RequestKind } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { beginMove, movingAgent } from './parts/moved.ts'

const ensuring = (stack: Stack, id: string, kind: RequestKind, more: object = {}) =>
  stack.api('POST', `/v1/desktops/${id}/${kind}`, { body: { ensure: true, ...more } })

/** Holds operations at that point until it is called. */
function hold(stack: Stack, point: string): () => void {
  const go = Promise.withResolvers<void>()
  stack.failpoints.set(point, () => go.promise)
  return () => {
    stack.failpoints.set(point, undefined)
    go.resolve()
  }
}

const count = async (stack: Stack, id: string) =>
  (await stack.client.listOperations(id)).operations.map(({ kind, state }) => `${kind} ${state}`).reverse()

test('a hundred at once wake a sleeping desktop once, and a desktop that is awake tells its last wake', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  const asked = await Promise.all(Array.from({ length: 100 }, () => ensuring(stack, id, 'wake')))
  const ids = new Set(asked.map(({ json }) => json.id))
  expect([ids.size, asked.every(({ status }) => status === 200 || status === 202)]).toEqual([1, true])
  const [wake] = [...ids]
  expect(await stack.settled(wake)).toMatchObject({ kind: 'wake', state: 'succeeded' })
  const again = await ensuring(stack, id, 'wake')
  expect([again.status, again.json.id, again.json.state]).toEqual([200, wake, 'succeeded'])
  expect((await stack.see(id)).generation).toBe(2)
  expect((await ensuring(stack, id, 'wake', { expected_generation: 1 })).json.code).toBe('stale_generation')
  expect((await stack.api('POST', `/v1/desktops/${id}/wake`)).json).toMatchObject({
    code: 'wrong_state',
    state: 'awake',
  })
})

test('a wake waits behind a hibernation that a caller has requested, also over a change of leader', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const release = hold(stack, 'hibernate.save.before')
  const slept = await stack.begin(id, 'hibernate')
  const joined = await ensuring(stack, id, 'hibernate')
  expect([joined.status, joined.json.id]).toEqual([202, slept.id])
  const queued = await ensuring(stack, id, 'wake')
  expect([queued.status, queued.json]).toMatchObject([202, { state: 'pending', progress: { queued_behind: 1 } }])
  expect((await ensuring(stack, id, 'wake')).json.id).toBe(queued.json.id)
  expect((await ensuring(stack, id, 'hibernate')).json).toMatchObject({ code: 'wrong_state', state: 'waking' })
  const ended = stack.endTerm()
  release()
  await ended
  expect(await stack.settled(slept.id)).toMatchObject({ state: 'succeeded' })
  expect(await stack.settled(queued.json.id)).toMatchObject({ state: 'succeeded', result: { generation: 2 } })
  expect(await stack.see(id)).toMatchObject({ state: 'awake', generation: 2 })
})

test('a wake behind a hibernation that fails has its result at once', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const release = hold(stack, 'hibernate.save.before')
  stack.host.driver.faults.failNext('save', 1_000, 'hypervisor_failed')
  const slept = await stack.begin(id, 'hibernate')
  const queued = await ensuring(stack, id, 'wake')
  release()
  expect(await stack.settled(slept.id)).toMatchObject({ state: 'failed' })
  expect(await stack.settled(queued.json.id)).toMatchObject({ state: 'succeeded', result: { generation: 1 } })
})

test('hibernate: a hibernated desktop tells its last one; one without a memory to save is refused', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const slept = await stack.ask(id, 'hibernate')
  const again = await ensuring(stack, id, 'hibernate')
  expect([again.status, again.json.id]).toEqual([200, slept.id])
  const release = hold(stack, 'wake.run.before')
  const wake = await stack.begin(id, 'wake')
  expect((await ensuring(stack, id, 'wake')).json.id).toBe(wake.id)
  expect((await ensuring(stack, id, 'hibernate')).json).toMatchObject({ code: 'wrong_state', state: 'waking' })
  release()
  await stack.settled(wake.id)
  for (const state of ['created', 'stopped'] as const) {
    const { id: other } = await stack.desktop(state)
    expect((await ensuring(stack, other, 'hibernate')).json).toMatchObject({ code: 'wrong_state', state })
  }
})

test('where no operation is kept that brought the desktop there, one has succeeded at once, and is told from then on', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  await stack.database.rows('update operations set generation = 0 where desktop_id = $1', [id])
  const first = await ensuring(stack, id, 'wake')
  expect([first.status, first.json]).toMatchObject([200, { state: 'succeeded', result: { desktop_state: 'awake' } }])
  expect((await ensuring(stack, id, 'wake')).json.id).toBe(first.json.id)
  expect(await count(stack, id)).toEqual(['wake succeeded', 'wake succeeded'])
})

test('the SDK wakes what sleeps, joins what is waking, and returns at once where it is awake', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  const connect = () => Desktop.connect(id, { client: stack.client })
  const wakes = await Promise.all(Array.from({ length: 5 }, () => connect().then((one) => one.ensureAwake())))
  expect(new Set(wakes.map((wake) => wake.id)).size).toBe(1)
  const desktop = await connect()
  expect((await desktop.ensureAwake()).id).toBe(wakes[0]!.id)
  expect((await desktop.ensureHibernated()).result?.desktopState).toBe('hibernated')
  const both = { ensure: true, discard_memory: true }
  expect((await stack.api('POST', `/v1/desktops/${id}/wake`, { body: both })).json).toMatchObject({ field: 'ensure' })
})

test('the same while the desktop moves: the operation that has succeeded at once is beside the move', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const { id } = await stack.desktop('awake')
  await stack.database.rows('update operations set generation = 0 where desktop_id = $1', [id])
  const release = hold(stack, 'move.send.before')
  const move = await beginMove(stack, id)
  const answer = await ensuring(stack, id, 'wake')
  release()
  expect([answer.status, answer.json]).toMatchObject([200, { state: 'succeeded', result: { desktop_state: 'awake' } }])
  expect(await stack.settled(move.id)).toMatchObject({ state: 'succeeded' })
})

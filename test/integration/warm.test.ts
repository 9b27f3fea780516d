// Guarantee: with warm copies a desktop sleeps, is billed, moves and ends as without them; only its wake is faster.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { beginMove, expectWholeOn, moved, movingAgent, other } from './parts/moved.ts'

let stack: Stack
let operatorKey: string
beforeAll(async () => {
  stack = await Stack.start({ hosts: 2, agent: { ...movingAgent, warmPercent: 25 } })
  operatorKey = await stack.replica.parts.principals.createOperatorKey('warm')
})
afterAll(() => stack[Symbol.asyncDispose]())

const admin = (method: string, path: string, body?: object) =>
  stack.api(method, `/admin/v1${path}`, { key: operatorKey, body })

/** Asleep, with a copy on its host. */
async function warm() {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  await stack.ask(id, 'hibernate')
  const host = await stack.hostOf(id)
  expect((await host.driver.domain(id))?.state).toBe('paused')
  return { id, host }
}

const wake = async (id: string) => (await stack.ask(id, 'wake')).result

test('it sleeps in every sense, wakes from its copy, and its result says so', async () => {
  const { id } = await warm()
  expect(await stack.see(id)).toMatchObject({ state: 'hibernated' })
  expect((await stack.api('POST', `/v1/desktops/${id}/exec`, { body: { command: 'true' } })).status).toBe(409)
  const [billed] = await stack.database.rows<{ kind: string }>(
    'select kind from usage_intervals where desktop_id = $1 and upper_inf(period)',
    [id],
  )
  expect(billed?.kind).toBe('hibernated')
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'warm' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a host that links again, a replica that starts and an agent that died find it asleep', async () => {
  const { id, host } = await warm()
  await host.restart()
  await stack.settle()
  expect(await stack.see(id)).toMatchObject({ state: 'hibernated' })
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'warm' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a copy that ends leaves the desktop asleep, not stopped', async () => {
  const { id, host } = await warm()
  host.driver.die(id)
  await stack.settle()
  expect(await stack.see(id)).toMatchObject({ state: 'hibernated' })
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'restore' })
})

test.each(['live', 'hibernate'] as const)(
  'a move (%s) takes it as any sleeping desktop, and leaves no process',
  async (mode) => {
    const { id, host } = await warm()
    const to = other(stack, host)
    expect(await moved(stack, id, mode)).toMatchObject({ state: 'succeeded', result: { moved: 'asleep' } })
    expect(await host.driver.domain(id)).toBeUndefined()
    await expectWholeOn(stack, to, id, 'hibernated')
  },
)

test('a desktop that is hibernated by its move is awake on the other host', async () => {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  const to = other(stack, await stack.hostOf(id))
  await stack.settled((await beginMove(stack, id, 'hibernate')).id)
  await expectWholeOn(stack, to, id, 'awake')
})

test('operators see what copies hold, and end them; a drain leaves none', async () => {
  const { id, host } = await warm()
  const shown = async () =>
    (await admin('GET', '/hosts')).json.hosts.find((one: { id: string }) => one.id === host.id).warm
  await waitFor('the next heartbeat', async () => (await shown())?.copies > 0)
  const { status, json } = await admin('POST', `/hosts/${host.name}/drop-warm-copies`)
  expect([status, json.dropped]).toEqual([200, expect.toSatisfy((n: number) => n > 0)])
  expect(await host.driver.domain(id)).toBeUndefined()
  expect(await wake(id)).toMatchObject({ path: 'restore' })
})

test('a destroy ends it', async () => {
  const { id, host } = await warm()
  await stack.ask(id, 'destroy')
  expect(await host.driver.domain(id)).toBeUndefined()
})

// Guarantee: with warm copies a desktop sleeps, is billed, moves and ends as without them; only its wake is faster.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import { beginMove, expectWholeOn, moved, movingAgent, other } from './parts/moved.ts'

let house: House
let operatorKey: string
beforeAll(async () => {
  house = await House.start({ hosts: 2, agent: { ...movingAgent, warmPercent: 25 } })
  operatorKey = await house.replica.parts.principals.createOperatorKey('warm')
})
afterAll(() => house[Symbol.asyncDispose]())

const admin = (method: string, path: string, body?: object) =>
  house.api(method, `/admin/v1${path}`, { key: operatorKey, body })

/** Asleep, with a copy on its host. */
async function warm() {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  await house.ask(id, 'hibernate')
  const host = await house.hostOf(id)
  expect((await host.driver.domain(id))?.state).toBe('paused')
  return { id, host }
}

const wake = async (id: string) => (await house.ask(id, 'wake')).result

test('it sleeps in every sense, wakes from its copy, and its result says so', async () => {
  const { id } = await warm()
  expect(await house.see(id)).toMatchObject({ state: 'hibernated' })
  expect((await house.api('POST', `/v1/desktops/${id}/exec`, { body: { command: 'true' } })).status).toBe(409)
  const [billed] = await house.database.rows<{ kind: string }>(
    'select kind from usage_intervals where desktop_id = $1 and upper_inf(period)',
    [id],
  )
  expect(billed?.kind).toBe('hibernated')
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'warm' })
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a host that links again, a replica that starts and an agent that died find it asleep', async () => {
  const { id, host } = await warm()
  await host.restart()
  await house.settle()
  expect(await house.see(id)).toMatchObject({ state: 'hibernated' })
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'warm' })
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a copy that ends leaves the desktop asleep, not stopped', async () => {
  const { id, host } = await warm()
  host.driver.die(id)
  await house.settle()
  expect(await house.see(id)).toMatchObject({ state: 'hibernated' })
  expect(await wake(id)).toMatchObject({ resumed_from: 'memory', path: 'restore' })
})

test.each(['live', 'hibernate'] as const)(
  'a move (%s) takes it as any sleeping desktop, and leaves no process',
  async (mode) => {
    const { id, host } = await warm()
    const to = other(house, host)
    expect(await moved(house, id, mode)).toMatchObject({ state: 'succeeded', result: { moved: 'asleep' } })
    expect(await host.driver.domain(id)).toBeUndefined()
    await expectWholeOn(house, to, id, 'hibernated')
  },
)

test('a desktop that is hibernated by its move is awake on the other host', async () => {
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  const to = other(house, await house.hostOf(id))
  await house.settled((await beginMove(house, id, 'hibernate')).id)
  await expectWholeOn(house, to, id, 'awake')
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
  await house.ask(id, 'destroy')
  expect(await host.driver.domain(id)).toBeUndefined()
})

// Guarantee: with templates a desktop is created, sleeps, moves and ends as without them; only its first wake is faster, and says so.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { expectWholeOn, moved, movingAgent, other } from './parts/moved.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start({ hosts: 2, agent: { ...movingAgent, templatesMiB: 10_000 } })
  // Each host makes its own.
  for (const host of stack.hosts) {
    await cordonedBut(host.id)
    expect((await firstWake()).path).toBe('boot')
    await waitFor('a template', async () => (await templatesOf(host.id)).length === 1)
  }
  await cordonedBut(null)
})
afterAll(() => stack[Symbol.asyncDispose]())

const cordonedBut = (hostId: string | null) =>
  stack.database.rows(`update hosts set cordoned_at = case when $1::uuid is null or id = $1 then null else now() end`, [
    hostId,
  ])

async function templatesOf(hostId: string) {
  const found = (await stack.replica.parts.hosts.list()).find(({ id }) => id === hostId)
  return found?.templates ?? []
}

async function firstWake() {
  const { id } = await stack.desktop()
  const { result } = await stack.ask(id, 'wake')
  return { id, ...result }
}

test('a first wake comes from the image, by a template, and hosts show which they have', async () => {
  const woken = await firstWake()
  expect(woken).toMatchObject({ resumed_from: 'image', path: 'template', ready: true })
  const host = await stack.hostOf(woken.id)
  expect(await templatesOf(host.id)).toEqual([{ image: 'mini', memory_mib: 512, vcpus: 1, mib: 1 }])
})

test('it sleeps and wakes with what it has', async () => {
  const { id } = await firstWake()
  await stack.remember(id, 'kept')
  await stack.ask(id, 'hibernate')
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'memory', path: 'restore' })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test.each(['awake', 'hibernated'] as const)('it moves as any other while it is %s', async (state) => {
  const { id } = await firstWake()
  await stack.remember(id, 'kept')
  if (state === 'hibernated') await stack.ask(id, 'hibernate')
  const to = other(stack, await stack.hostOf(id))
  expect(await moved(stack, id)).toMatchObject({ state: 'succeeded' })
  await expectWholeOn(stack, to, id, state)
})

test('where the template fails, it boots, and its caller notices nothing else', async () => {
  const { id } = await stack.desktop()
  for (const host of stack.hosts) host.driver.faults.failNext('copyTemplate')
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ resumed_from: 'image', path: 'boot' })
  for (const host of stack.hosts) host.driver.faults.failNext('copyTemplate', 0)
})

test.each(['before-copy', 'after-copy', 'before-resume', 'after-resume', 'after-identity', 'after-done'])(
  'an agent that dies at %s of a first wake wakes it when it is back',
  async (name) => {
    const { id } = await stack.desktop()
    const reached = Promise.withResolvers<string>()
    for (const host of stack.hosts)
      host.failpoints.set(`first-wake.${name}`, async () => {
        reached.resolve(host.id)
        await new Promise(() => undefined)
      })
    const { id: operationId } = await stack.begin(id, 'wake')
    const at = await reached.promise
    for (const host of stack.hosts) host.failpoints.set(`first-wake.${name}`, undefined)
    await stack.hosts.find((host) => host.id === at)!.restart()
    expect(await stack.settled(operationId)).toMatchObject({
      state: 'succeeded',
      result: { resumed_from: 'image', path: 'template' },
    })
    await stack.remember(id, 'kept')
    expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  },
)

test('until its guest is somebody, every request to it answers 409', async () => {
  const { id } = await stack.desktop()
  const [reached, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  for (const host of stack.hosts)
    host.failpoints.set('first-wake.after-resume', () => {
      reached.resolve()
      return released.promise
    })
  const { id: operationId } = await stack.begin(id, 'wake')
  await reached.promise
  for (const host of stack.hosts) host.failpoints.set('first-wake.after-resume', undefined)
  const requests: [method: string, path: string, body?: unknown][] = [
    ['POST', 'exec', { command: 'true' }],
    ['POST', 'execs', { command: 'true' }],
    ['GET', 'files/etc/hostname'],
    ['PUT', 'files/tmp/x', 'x'],
    ['GET', 'entries?path=/tmp'],
    ['POST', 'stream', { claim: 'view' }],
    ['GET', 'screenshot'],
  ]
  const ask = ([method, path, body]: (typeof requests)[number]) =>
    stack.api(method, `/v1/desktops/${id}/${path}`, { body })
  for (const request of requests)
    expect([request, (await ask(request)).json]).toEqual([request, expect.objectContaining({ code: 'not_awake' })])
  released.resolve()
  expect(await stack.settled(operationId)).toMatchObject({ state: 'succeeded', result: { path: 'template' } })
  for (const request of requests) expect([request, (await ask(request)).json?.code]).not.toContain('not_awake')
})

test('a wake that was cut off before its guest was anybody, and is destroyed, leaves nothing', async () => {
  const { id } = await stack.desktop()
  const reached = Promise.withResolvers<string>()
  for (const host of stack.hosts)
    host.failpoints.set('first-wake.after-resume', async () => {
      reached.resolve(host.id)
      await new Promise(() => undefined)
    })
  await stack.begin(id, 'wake')
  const at = await reached.promise
  for (const host of stack.hosts) host.failpoints.set('first-wake.after-resume', undefined)
  const host = stack.hosts.find((one) => one.id === at)!
  await host.restart()
  await stack.ask(id, 'destroy')
  await waitFor('nothing to be left', async () => {
    const { domain, disk } = await host.holds(id)
    return domain === 'absent' && !disk
  })
})

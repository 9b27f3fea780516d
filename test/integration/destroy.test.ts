// Guarantee: destroy is accepted from every state, supersedes what is under way, and always converges; also without its host.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { inShort } from './parts/host.ts'

const underWay: [
  kind: 'wake' | 'hibernate',
  from: 'created' | 'hibernated' | 'awake',
  hangs: 'startCold' | 'makeDisk' | 'restorePaused' | 'ping' | 'save',
][] = [
  ['wake', 'created', 'makeDisk'],
  ['wake', 'created', 'startCold'],
  ['wake', 'created', 'ping'],
  ['wake', 'hibernated', 'restorePaused'],
  ['wake', 'hibernated', 'ping'],
  ['hibernate', 'awake', 'save'],
]

test.each(underWay)(
  'a destroy ends a %s of a desktop that is %s while its host hangs in %s',
  async (kind, from, hangs) => {
    await using stack = await Stack.start()
    const { id } = await stack.desktop(from)
    const release = stack.host.driver.faults.hang(hangs)
    const overtaken = await stack.begin(id, kind)
    await waitFor(`the host to be asked for the ${kind}`, async () => (await stack.host.commandsOf(id)).includes(kind))
    const destroying = await stack.begin(id, 'destroy')
    expect(await stack.settled(overtaken.id)).toMatchObject({ state: 'failed', error: 'superseded by destroy' })
    release()
    expect(await stack.settled(destroying.id)).toMatchObject({ state: 'succeeded', result: { cleanup: 'done' } })
    await stack.settle()
    expect(await stack.see(id)).toMatchObject({ state: 'destroyed' })
    expect(await stack.inventory()).toEqual([])
    expect(await stack.host.holds(id)).toEqual({ domain: 'absent', disk: false })
    expect(await stack.held(id)).toBeUndefined()
  },
)

test.each(['place', 'disk', 'run', 'settle'])(
  'a destroy accepted while a wake stands before "%s" wins',
  async (step) => {
    await using stack = await Stack.start()
    const { id } = await stack.desktop()
    const [there, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    stack.failpoints.set(`wake.${step}.before`, async () => {
      there.resolve()
      await go.promise
    })
    const overtaken = await stack.begin(id, 'wake')
    await there.promise
    const destroying = await stack.begin(id, 'destroy')
    go.resolve()
    expect((await stack.settled(overtaken.id)).state).toBe('failed')
    expect((await stack.settled(destroying.id)).state).toBe('succeeded')
    await stack.settle()
    expect((await stack.see(id)).state).toBe('destroyed')
    expect(await stack.inventory()).toEqual([])
    expect(await stack.held(id)).toBeUndefined()
  },
)

test('a destroy without its host settles after the grace as deferred, and the remains go when the host is back, before anything runs there', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const saved = (await stack.desktop('hibernated')).id
  await stack.killAgent()
  for (const each of [id, saved]) {
    expect((await stack.ask(each, 'destroy')).result).toMatchObject({ desktop_state: 'destroyed', cleanup: 'deferred' })
    expect((await stack.see(each)).state).toBe('destroyed')
  }
  expect(await stack.held(id)).toBeGreaterThan(0)
  expect(await stack.host.holds(id)).toEqual({ domain: 'running', disk: true })
  await stack.restartAgent()
  await waitFor('the remains to go', async () => (await stack.inventory()).length === 0)
  expect(await stack.host.holds(id)).toEqual({ domain: 'absent', disk: false })
  await waitFor('the module to be given back', async () => (await stack.held(id)) === undefined)
})

test('more destroys than a pass may do by itself are all carried out on rejoin, without an alarm', async () => {
  await using stack = await Stack.start()
  const ids = await Promise.all(Array.from({ length: 8 }, async () => (await stack.desktop('awake')).id))
  await stack.killAgent()
  await Promise.all(ids.map((id) => stack.ask(id, 'destroy')))
  await stack.restartAgent()
  await waitFor('the remains to go', async () => (await stack.inventory()).length === 0)
  await waitFor(
    'nothing to be deferred',
    async () => (await stack.database.rows('select 1 from deferred_commands')).length === 0,
  )
  // One pass at a time: when another has ended, so has the one of the rejoin.
  await stack.replica.parts.recovery.compare(stack.host.id)
  expect(stack.chronicle.find(/too much/)).toEqual([])
})

test('a destroy whose hypervisor does not answer is deferred, and done when it answers again', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  stack.host.driver.faults.failNext('kill', 1_000)
  expect((await stack.ask(id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  stack.host.driver.faults.failNext('kill', 0)
  await stack.replica.parts.recovery.sendDeferred()
  await waitFor('the remains to go', async () => (await stack.inventory()).length === 0)
})

test('a destroy that fails leaves a state from which it may be asked again', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop()
  const release = stack.host.driver.faults.hang('startCold')
  await stack.begin(id, 'wake')
  await waitFor('the boot', () => stack.host.failpoints.hits.includes('wake.after-mark'))
  stack.failpoints.set('destroy.remove.before', 'throw@1')
  const failed = await stack.settled((await stack.begin(id, 'destroy')).id)
  expect(failed.state).toBe('failed')
  expect((await stack.see(id)).state).toBe('stopped')
  release()
  expect((await stack.ask(id, 'destroy')).state).toBe('succeeded')
  expect(await stack.inventory()).toEqual([])
})

test('after a destroy nothing brings the desktop back: not the wake it overtook, not an agent that was killed meanwhile', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('hibernated')
  const release = stack.host.driver.faults.hang('restorePaused')
  const wake = await stack.begin(id, 'wake')
  await waitFor('the restore', async () => (await stack.host.commandsOf(id)).includes('wake'))
  await stack.killAgent()
  const destroying = await stack.begin(id, 'destroy')
  await stack.restartAgent()
  release()
  await stack.settled(destroying.id)
  expect((await stack.settled(wake.id)).state).toBe('failed')
  await waitFor('the remains to go', async () => (await stack.inventory()).length === 0)
  expect(inShort(await stack.observed(id))).toBe('nothing')
  expect(await stack.host.holds(id)).toEqual({ domain: 'absent', disk: false })
})

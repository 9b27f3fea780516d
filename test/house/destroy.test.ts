// Guarantee: destroy is accepted from every state, supersedes what is under way, and always converges; also without its host.
import { expect, test } from 'vitest'
import { House } from '../house.ts'
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
    await using house = await House.start()
    const { id } = await house.desktop(from)
    const release = house.host.driver.faults.hang(hangs)
    const overtaken = await house.begin(id, kind)
    await waitFor(`the host to be asked for the ${kind}`, async () => (await house.host.commandsOf(id)).includes(kind))
    const destroying = await house.begin(id, 'destroy')
    expect(await house.settled(overtaken.id)).toMatchObject({ state: 'failed', error: 'superseded by destroy' })
    release()
    expect(await house.settled(destroying.id)).toMatchObject({ state: 'succeeded', result: { cleanup: 'done' } })
    await house.settle()
    expect(await house.see(id)).toMatchObject({ state: 'destroyed' })
    expect(await house.inventory()).toEqual([])
    expect(await house.host.holds(id)).toEqual({ domain: 'absent', disk: false })
    expect(await house.held(id)).toBeUndefined()
  },
)

test.each(['place', 'disk', 'run', 'settle'])(
  'a destroy accepted while a wake stands before "%s" wins',
  async (step) => {
    await using house = await House.start()
    const { id } = await house.desktop()
    const [there, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    house.failpoints.set(`wake.${step}.before`, async () => {
      there.resolve()
      await go.promise
    })
    const overtaken = await house.begin(id, 'wake')
    await there.promise
    const destroying = await house.begin(id, 'destroy')
    go.resolve()
    expect((await house.settled(overtaken.id)).state).toBe('failed')
    expect((await house.settled(destroying.id)).state).toBe('succeeded')
    await house.settle()
    expect((await house.see(id)).state).toBe('destroyed')
    expect(await house.inventory()).toEqual([])
    expect(await house.held(id)).toBeUndefined()
  },
)

test('a destroy without its host settles after the grace as deferred, and the remains go when the host is back, before anything runs there', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  const saved = (await house.desktop('hibernated')).id
  await house.killAgent()
  for (const each of [id, saved]) {
    expect((await house.ask(each, 'destroy')).result).toMatchObject({ desktop_state: 'destroyed', cleanup: 'deferred' })
    expect((await house.see(each)).state).toBe('destroyed')
  }
  expect(await house.held(id)).toBeGreaterThan(0)
  expect(await house.host.holds(id)).toEqual({ domain: 'running', disk: true })
  await house.restartAgent()
  await waitFor('the remains to go', async () => (await house.inventory()).length === 0)
  expect(await house.host.holds(id)).toEqual({ domain: 'absent', disk: false })
  await waitFor('the room to be given back', async () => (await house.held(id)) === undefined)
})

test('more destroys than a pass may do by itself are all carried out on rejoin, without an alarm', async () => {
  await using house = await House.start()
  const ids = await Promise.all(Array.from({ length: 8 }, async () => (await house.desktop('awake')).id))
  await house.killAgent()
  await Promise.all(ids.map((id) => house.ask(id, 'destroy')))
  await house.restartAgent()
  await waitFor('the remains to go', async () => (await house.inventory()).length === 0)
  await waitFor(
    'nothing to be deferred',
    async () => (await house.database.rows('select 1 from deferred_commands')).length === 0,
  )
  // One pass at a time: when another has ended, so has the one of the rejoin.
  await house.replica.parts.recovery.compare(house.host.id)
  expect(house.chronicle.find(/too much/)).toEqual([])
})

test('a destroy whose hypervisor does not answer is deferred, and done when it answers again', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('awake')
  house.host.driver.faults.failNext('kill', 1_000)
  expect((await house.ask(id, 'destroy')).result).toMatchObject({ cleanup: 'deferred' })
  house.host.driver.faults.failNext('kill', 0)
  await house.replica.parts.recovery.sendDeferred()
  await waitFor('the remains to go', async () => (await house.inventory()).length === 0)
})

test('a destroy that fails leaves a state from which it may be asked again', async () => {
  await using house = await House.start()
  const { id } = await house.desktop()
  const release = house.host.driver.faults.hang('startCold')
  await house.begin(id, 'wake')
  await waitFor('the boot', () => house.host.failpoints.hits.includes('wake.after-mark'))
  house.failpoints.set('destroy.remove.before', 'throw@1')
  const failed = await house.settled((await house.begin(id, 'destroy')).id)
  expect(failed.state).toBe('failed')
  expect((await house.see(id)).state).toBe('stopped')
  release()
  expect((await house.ask(id, 'destroy')).state).toBe('succeeded')
  expect(await house.inventory()).toEqual([])
})

test('after a destroy nothing brings the desktop back: not the wake it overtook, not an agent that was killed meanwhile', async () => {
  await using house = await House.start()
  const { id } = await house.desktop('hibernated')
  const release = house.host.driver.faults.hang('restorePaused')
  const wake = await house.begin(id, 'wake')
  await waitFor('the restore', async () => (await house.host.commandsOf(id)).includes('wake'))
  await house.killAgent()
  const destroying = await house.begin(id, 'destroy')
  await house.restartAgent()
  release()
  await house.settled(destroying.id)
  expect((await house.settled(wake.id)).state).toBe('failed')
  await waitFor('the remains to go', async () => (await house.inventory()).length === 0)
  expect(inShort(await house.observed(id))).toBe('nothing')
  expect(await house.host.holds(id)).toEqual({ domain: 'absent', disk: false })
})

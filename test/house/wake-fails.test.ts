// Guarantee: wherever a wake fails, it holds no memory of a host, the owner's work is still there, and the next wake works.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { House } from '../house.ts'
import { inShort } from './parts/host.ts'

const controlPlanePoints = ['place', 'disk', 'run'].flatMap((step) => [`wake.${step}.before`, `wake.${step}.after`])
/** Where the agent can fail between being asked and answering. */
const agentPoints = ['wake.before-mark', 'wake.after-mark', 'wake.after-resume', 'command.before-reply']
const origins = ['created', 'hibernated', 'stopped'] as const

async function fallenAsleep(house: House, origin: (typeof origins)[number]): Promise<string> {
  if (origin === 'created') return (await house.desktop('created')).id
  const { id } = await house.desktop('awake')
  await house.remember(id, 'kept')
  if (origin === 'hibernated') await house.ask(id, 'hibernate')
  else {
    house.host.driver.die(id)
    await house.becomes(id, 'stopped')
  }
  return id
}

/** What must hold after a failed wake, and after the wake that follows it. */
async function takenBack(house: House, id: string, origin: (typeof origins)[number]): Promise<void> {
  await house.settle()
  const desktop = await house.see(id)
  const truth = {
    created: ['created', 'stopped', 'hibernated'],
    hibernated: ['hibernated'],
    stopped: ['stopped', 'hibernated'],
  }
  expect(truth[origin]).toContain(desktop.state)
  expect((await house.held(id)) ?? 0, 'MiB held').toBe(0)
  const onHost = { created: 'nothing', hibernated: 'saved', stopped: 'disk' } as Record<string, string>
  expect(inShort(await house.observed(id))).toBe(onHost[desktop.state])
  const woken = await house.ask(id, 'wake')
  // A disk that was made and never booted is the image still.
  const sources = {
    created: ['image'],
    hibernated: ['memory'],
    stopped: origin === 'created' ? ['image', 'disk'] : ['disk'],
  }
  expect(sources[desktop.state as keyof typeof sources]).toContain(woken.result?.resumed_from)
  const words = await house.recall(id)
  if (origin === 'hibernated') expect(words.memory).toBe('kept')
  if (origin !== 'created') expect(words.disk).toBe('kept')
}

describe.each(origins)('a wake from "%s"', (origin) => {
  let house: House
  beforeAll(async () => {
    house = await House.start()
  })
  afterAll(() => house[Symbol.asyncDispose]())

  test.each(controlPlanePoints)('that fails at "%s" of the control plane is taken back whole', async (point) => {
    const id = await fallenAsleep(house, origin)
    house.failpoints.set(point, 'throw')
    const failed = await house.settled((await house.begin(id, 'wake')).id)
    expect(failed).toMatchObject({ state: 'failed', result: null })
    expect(failed.error).toMatch(/^internal error; .*(kept|lost)/)
    house.failpoints.set(point, undefined)
    await takenBack(house, id, origin)
  })

  // At once, since each waits for the next try most of its time.
  test.concurrent.each(agentPoints)(
    'that fails at "%s" of the agent, again and again, is taken back whole',
    async (point) => {
      await using house = await House.start()
      house.chronicle.foresee(/^a step failed$/, /handler/)
      const id = await fallenAsleep(house, origin)
      house.host.failpoints.set(point, 'throw')
      for (const undo of ['wake.disk.undo', 'wake.run.undo']) {
        house.failpoints.set(undo, () => house.host.failpoints.set(point, undefined))
      }
      const { state } = await house.settled((await house.begin(id, 'wake')).id)
      house.host.failpoints.set(point, undefined)
      // A guest that was left running by the first try is found by the second: then the wake has succeeded.
      if (state === 'succeeded') expect((await house.see(id)).state).toBe('awake')
      else await takenBack(house, id, origin)
    },
  )
})

test('a guest that never answers fails its wake by name; from memory nothing is lost', async () => {
  await using house = await House.start()
  const id = await fallenAsleep(house, 'hibernated')
  house.host.driver.faults.guestsSilent = true
  const failed = await house.withDeadline(1_500, async () => house.settled((await house.begin(id, 'wake')).id))
  expect(failed).toMatchObject({ state: 'failed' })
  expect(failed.error).toMatch(/guest/i)
  house.host.driver.faults.guestsSilent = false
  await takenBack(house, id, 'hibernated')
})

test('a wake that gives the saved memory up and then fails leaves what is true: no memory, and a disk to wake from', async () => {
  await using house = await House.start()
  const id = await fallenAsleep(house, 'hibernated')
  house.host.driver.faults.guestsSilent = true
  const wish = { discard_memory: true }
  const failed = await house.withDeadline(1_500, async () => house.settled((await house.begin(id, 'wake', wish)).id))
  expect(failed).toMatchObject({
    state: 'failed',
    error: expect.stringMatching(/discarded as requested, its disk is kept/),
  })
  expect((await house.see(id)).state).toBe('stopped')
  house.host.driver.faults.guestsSilent = false
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect((await house.recall(id)).disk).toBe('kept')
})

test('a wake that fails before it has given the saved memory up leaves it to the next one', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^a step failed$/, /handler/)
  const id = await fallenAsleep(house, 'hibernated')
  house.host.failpoints.set('wake.before-mark', 'throw')
  const failed = await house.settled((await house.begin(id, 'wake', { discard_memory: true })).id)
  expect(failed.state).toBe('failed')
  expect((await house.see(id)).state).toBe('hibernated')
  house.host.failpoints.set('wake.before-mark', undefined)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect((await house.recall(id)).memory).toBe('kept')
})

test('a memory that was given up by a wake that cannot be taken back yet is told when it is', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^a step failed$/, /^a call failed$/)
  const id = await fallenAsleep(house, 'hibernated')
  house.host.driver.faults.guestsSilent = true
  house.host.failpoints.set('wake.after-resume', () => house.host.failpoints.set('journal.before-write', 'throw'))
  const wish = { discard_memory: true }
  const failed = await house.withDeadline(1_500, async () => house.settled((await house.begin(id, 'wake', wish)).id))
  expect(failed.state).toBe('failed')
  expect((await house.see(id)).state).toBe('hibernated')
  // What rejoin could tell it by is gone: the undo itself must.
  rmSync(join(house.host.folder, 'memory', id), { recursive: true })
  for (const point of ['wake.after-resume', 'journal.before-write']) house.host.failpoints.set(point, undefined)
  await house.database.rows('update deferred_commands set last_tried_at = null')
  await house.replica.parts.recovery.sendDeferred()
  await house.becomes(id, 'stopped')
  house.host.driver.faults.guestsSilent = false
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('disk')
})

test('an undo that fails is tried again until it is done, and the operation settles only then', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^a step failed$/)
  const id = await fallenAsleep(house, 'hibernated')
  let tries = 0
  house.failpoints.set('wake.run.after', 'throw')
  house.failpoints.set('wake.run.undo', () => {
    if (++tries < 3) throw new Error('the undo fails')
  })
  expect((await house.settled((await house.begin(id, 'wake')).id)).state).toBe('failed')
  expect(tries).toBe(3)
  house.failpoints.set('wake.run.after', undefined)
  await takenBack(house, id, 'hibernated')
})

test.each(['wake.settle.before', 'wake.settle.after'])(
  'a failure at "%s" delays a wake and loses nothing',
  async (point) => {
    await using house = await House.start()
    house.chronicle.foresee(/^an operation hit an unexpected error/)
    const { id } = await house.desktop()
    house.failpoints.set(point, 'throw@1')
    const operation = await house.settled((await house.begin(id, 'wake')).id)
    expect(operation.state).toBe('succeeded')
    expect((await house.see(id)).state).toBe('awake')
  },
)

test('where a failed wake cannot be saved anew, the desktop is stopped and the error says that memory was lost', async () => {
  await using house = await House.start()
  const id = await fallenAsleep(house, 'hibernated')
  house.failpoints.set('wake.run.after', () => {
    house.host.driver.faults.failNext('save', 1_000)
    house.failpoints.set('wake.run.after', undefined)
    throw new Error('the wake fails after its guest has run')
  })
  const failed = await house.settled((await house.begin(id, 'wake')).id)
  expect(failed.state).toBe('failed')
  expect(failed.error).toMatch(/memory/)
  expect((await house.see(id)).state).toBe('stopped')
  expect(await house.held(id)).toBe(0)
  house.host.driver.faults.failNext('save', 0)
  expect((await house.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect((await house.recall(id)).disk).toBe('kept')
})

test('every step of every operation may run twice', async () => {
  await using house = await House.start()
  house.chronicle.foresee(/^an operation hit an unexpected error/)
  house.repeating('wake', ['place', 'disk', 'run'])
  house.repeating('hibernate', ['save'])
  house.repeating('destroy', ['remove'])
  const { id } = await house.desktop()
  const wake = await house.settled((await house.begin(id, 'wake')).id)
  expect(wake).toMatchObject({ state: 'succeeded', result: { generation: 1, resumed_from: 'image' } })
  await house.remember(id, 'twice')
  expect(await house.settled((await house.begin(id, 'hibernate')).id)).toMatchObject({ state: 'succeeded' })
  house.repeating('wake', ['place', 'disk', 'run'])
  const again = await house.settled((await house.begin(id, 'wake')).id)
  expect(again).toMatchObject({ state: 'succeeded', result: { generation: 2, resumed_from: 'memory' } })
  expect(await house.recall(id)).toEqual({ memory: 'twice', disk: 'twice' })
  expect(await house.settled((await house.begin(id, 'destroy')).id)).toMatchObject({ state: 'succeeded' })
  expect(await house.inventory()).toEqual([])
})

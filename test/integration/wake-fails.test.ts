// Guarantee: wherever a wake fails, it holds no memory of a host, the owner's work is still there, and the next wake works.
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { inShort } from './parts/host.ts'

const controlPlanePoints = ['place', 'disk', 'run'].flatMap((step) => [`wake.${step}.before`, `wake.${step}.after`])
/** The points at which the agent can fail between a command and its reply. */
const agentPoints = ['wake.before-mark', 'wake.after-mark', 'wake.after-resume', 'command.before-reply']
const origins = ['created', 'hibernated', 'stopped'] as const

async function fallenAsleep(stack: Stack, origin: (typeof origins)[number]): Promise<string> {
  if (origin === 'created') return (await stack.desktop('created')).id
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  if (origin === 'hibernated') await stack.ask(id, 'hibernate')
  else {
    stack.host.driver.die(id)
    await stack.becomes(id, 'stopped')
  }
  return id
}

/** What must hold after a failed wake, and after the wake that follows it. */
async function takenBack(stack: Stack, id: string, origin: (typeof origins)[number]): Promise<void> {
  await stack.settle()
  const desktop = await stack.see(id)
  const truth = {
    created: ['created', 'stopped', 'hibernated'],
    hibernated: ['hibernated'],
    stopped: ['stopped', 'hibernated'],
  }
  expect(truth[origin]).toContain(desktop.state)
  expect((await stack.held(id)) ?? 0, 'MiB held').toBe(0)
  const onHost = { created: 'nothing', hibernated: 'saved', stopped: 'disk' } as Record<string, string>
  expect(inShort(await stack.observed(id))).toBe(onHost[desktop.state])
  const woken = await stack.ask(id, 'wake')
  // A disk that was made and never booted is the image still.
  const sources = {
    created: ['image'],
    hibernated: ['memory'],
    stopped: origin === 'created' ? ['image', 'disk'] : ['disk'],
  }
  expect(sources[desktop.state as keyof typeof sources]).toContain(woken.result?.resumed_from)
  const words = await stack.recall(id)
  if (origin === 'hibernated') expect(words.memory).toBe('kept')
  if (origin !== 'created') expect(words.disk).toBe('kept')
}

describe.each(origins)('a wake from "%s"', (origin) => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start()
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  test.each(controlPlanePoints)('that fails at "%s" of the control plane is taken back whole', async (point) => {
    const id = await fallenAsleep(stack, origin)
    stack.failpoints.set(point, 'throw')
    const failed = await stack.settled((await stack.begin(id, 'wake')).id)
    expect(failed).toMatchObject({ state: 'failed', result: null })
    expect(failed.error).toMatch(/^internal error; .*(kept|lost)/)
    stack.failpoints.set(point, undefined)
    await takenBack(stack, id, origin)
  })

  // At once, since each waits for the next try most of its time.
  test.concurrent.each(agentPoints)(
    'that fails at "%s" of the agent, again and again, is taken back whole',
    async (point) => {
      await using stack = await Stack.start()
      stack.chronicle.foresee(/^a step failed$/, /handler/)
      const id = await fallenAsleep(stack, origin)
      stack.host.failpoints.set(point, 'throw')
      for (const undo of ['wake.disk.undo', 'wake.run.undo']) {
        stack.failpoints.set(undo, () => stack.host.failpoints.set(point, undefined))
      }
      const { state } = await stack.settled((await stack.begin(id, 'wake')).id)
      stack.host.failpoints.set(point, undefined)
      // A guest that was left running by the first try is found by the second: then the wake has succeeded.
      if (state === 'succeeded') expect((await stack.see(id)).state).toBe('awake')
      else await takenBack(stack, id, origin)
    },
  )
})

test('a guest that never answers fails its wake by name; from memory nothing is lost', async () => {
  await using stack = await Stack.start()
  const id = await fallenAsleep(stack, 'hibernated')
  stack.host.driver.faults.guestsSilent = true
  const failed = await stack.withDeadline(1_500, async () => stack.settled((await stack.begin(id, 'wake')).id))
  expect(failed).toMatchObject({ state: 'failed' })
  expect(failed.error).toMatch(/guest/i)
  stack.host.driver.faults.guestsSilent = false
  await takenBack(stack, id, 'hibernated')
})

test('a wake that gives the saved memory up and then fails leaves what is true: no memory, and a disk to wake from', async () => {
  await using stack = await Stack.start()
  const id = await fallenAsleep(stack, 'hibernated')
  stack.host.driver.faults.guestsSilent = true
  const wish = { discard_memory: true }
  const failed = await stack.withDeadline(1_500, async () => stack.settled((await stack.begin(id, 'wake', wish)).id))
  expect(failed).toMatchObject({
    state: 'failed',
    error: expect.stringMatching(/discarded as requested, its disk is kept/),
  })
  expect((await stack.see(id)).state).toBe('stopped')
  stack.host.driver.faults.guestsSilent = false
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect((await stack.recall(id)).disk).toBe('kept')
})

test('a wake that fails before it has given the saved memory up leaves it to the next one', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^a step failed$/, /handler/)
  const id = await fallenAsleep(stack, 'hibernated')
  stack.host.failpoints.set('wake.before-mark', 'throw')
  const failed = await stack.settled((await stack.begin(id, 'wake', { discard_memory: true })).id)
  expect(failed.state).toBe('failed')
  expect((await stack.see(id)).state).toBe('hibernated')
  stack.host.failpoints.set('wake.before-mark', undefined)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('memory')
  expect((await stack.recall(id)).memory).toBe('kept')
})

test('a memory that was given up by a wake that cannot be taken back yet is told when it is', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^a step failed$/, /^a call failed$/)
  const id = await fallenAsleep(stack, 'hibernated')
  stack.host.driver.faults.guestsSilent = true
  stack.host.failpoints.set('wake.after-resume', () => stack.host.failpoints.set('journal.before-write', 'throw'))
  const wish = { discard_memory: true }
  const failed = await stack.withDeadline(1_500, async () => stack.settled((await stack.begin(id, 'wake', wish)).id))
  expect(failed.state).toBe('failed')
  expect((await stack.see(id)).state).toBe('hibernated')
  // What rejoin could tell it by is gone: the undo itself must.
  rmSync(join(stack.host.folder, 'memory', id), { recursive: true })
  for (const point of ['wake.after-resume', 'journal.before-write']) stack.host.failpoints.set(point, undefined)
  await stack.database.rows('update deferred_commands set last_tried_at = null')
  await stack.replica.parts.recovery.sendDeferred()
  await stack.becomes(id, 'stopped')
  stack.host.driver.faults.guestsSilent = false
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('disk')
})

test('an undo that fails is tried again until it is done, and the operation settles only then', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^a step failed$/)
  const id = await fallenAsleep(stack, 'hibernated')
  let tries = 0
  stack.failpoints.set('wake.run.after', 'throw')
  stack.failpoints.set('wake.run.undo', () => {
    if (++tries < 3) throw new Error('the undo fails')
  })
  expect((await stack.settled((await stack.begin(id, 'wake')).id)).state).toBe('failed')
  expect(tries).toBe(3)
  stack.failpoints.set('wake.run.after', undefined)
  await takenBack(stack, id, 'hibernated')
})

test.each(['wake.settle.before', 'wake.settle.after'])(
  'a failure at "%s" delays a wake and loses nothing',
  async (point) => {
    await using stack = await Stack.start()
    stack.chronicle.foresee(/^an operation hit an unexpected error/)
    const { id } = await stack.desktop()
    stack.failpoints.set(point, 'throw@1')
    const operation = await stack.settled((await stack.begin(id, 'wake')).id)
    expect(operation.state).toBe('succeeded')
    expect((await stack.see(id)).state).toBe('awake')
  },
)

test('where a failed wake cannot be saved anew, the desktop is stopped and the error says that memory was lost', async () => {
  await using stack = await Stack.start()
  const id = await fallenAsleep(stack, 'hibernated')
  stack.failpoints.set('wake.run.after', () => {
    stack.host.driver.faults.failNext('save', 1_000)
    stack.failpoints.set('wake.run.after', undefined)
    throw new Error('the wake fails after its guest has run')
  })
  const failed = await stack.settled((await stack.begin(id, 'wake')).id)
  expect(failed.state).toBe('failed')
  expect(failed.error).toMatch(/memory/)
  expect((await stack.see(id)).state).toBe('stopped')
  expect(await stack.held(id)).toBe(0)
  stack.host.driver.faults.failNext('save', 0)
  expect((await stack.ask(id, 'wake')).result?.resumed_from).toBe('disk')
  expect((await stack.recall(id)).disk).toBe('kept')
})

test('every step of every operation may run twice', async () => {
  await using stack = await Stack.start()
  stack.chronicle.foresee(/^an operation hit an unexpected error/)
  stack.repeating('wake', ['place', 'disk', 'run'])
  stack.repeating('hibernate', ['save'])
  stack.repeating('destroy', ['remove'])
  const { id } = await stack.desktop()
  const wake = await stack.settled((await stack.begin(id, 'wake')).id)
  expect(wake).toMatchObject({ state: 'succeeded', result: { generation: 1, resumed_from: 'image' } })
  await stack.remember(id, 'twice')
  expect(await stack.settled((await stack.begin(id, 'hibernate')).id)).toMatchObject({ state: 'succeeded' })
  stack.repeating('wake', ['place', 'disk', 'run'])
  const again = await stack.settled((await stack.begin(id, 'wake')).id)
  expect(again).toMatchObject({ state: 'succeeded', result: { generation: 2, resumed_from: 'memory' } })
  expect(await stack.recall(id)).toEqual({ memory: 'twice', disk: 'twice' })
  expect(await stack.settled((await stack.begin(id, 'destroy')).id)).toMatchObject({ state: 'succeeded' })
  expect(await stack.inventory()).toEqual([])
})

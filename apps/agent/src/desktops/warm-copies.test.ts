// Guarantee: a warm copy changes nothing but the time of a wake. Whatever ends it, and whenever, the desktop sleeps with its
// memory; and its saved image is never restored once its guest has run on.
import { readdir, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'
import type { HostMemory } from './warm-copies.ts'

const hour = 3_600_000
const plenty: HostMemory = { totalMiB: 10_000, availableMiB: 9_000 }
const start = (warm: Partial<NonNullable<Parameters<typeof Bench.start>[0]>['warm']> = {}) =>
  Bench.start({ warm: { maxMiB: 1_000, maxAgeMs: hour, hostMemory: () => plenty, ...warm } })

const bootOf = (bench: Bench, id: string) => bench.run(id, 'cat /proc/sys/kernel/random/boot_id')

async function asleep(bench: Bench) {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const bootId = await bootOf(bench, id)
  await bench.hibernated(fenceOf(id, 1, 2))
  return { id, bootId }
}

const wake = (bench: Bench, id: string, turn = 3) => bench.awake(fenceOf(id, turn - 1, turn), 'require', 'require')
const state = async (bench: Bench, id: string) => {
  const { domain, memory, warm = false } = await bench.observe(id)
  return { domain, memory, warm }
}
const sleeping = { domain: 'absent', memory: 'complete' }
const domainOf = async (bench: Bench, id: string) => (await bench.driver.domain(id))?.state

test('a hibernated desktop keeps its process, sleeps in every other sense, and goes on in it', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  expect(await state(bench, id)).toEqual({ ...sleeping, warm: true })
  expect(await domainOf(bench, id)).toBe('paused')
  await expect(bench.run(id, 'true')).rejects.toMatchObject({ code: 'not_awake' })
  expect(bench.parts.warm.facts).toEqual({ copies: 1, memoryMiB: 16, maxMiB: 1_000 })
  expect(await bench.hibernated(fenceOf(id, 1, 2))).toEqual({ memoryBytes: expect.any(Number) })
  expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory', ready: true, path: 'warm' })
  expect(await bootOf(bench, id)).toBe(bootId)
  expect(bench.parts.warm.facts.copies).toBe(0)
  expect(await state(bench, id)).toEqual({ domain: 'running', memory: 'spent', warm: false })
})

test('ten sleeps and wakes in one process keep what the guest had', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  for (let turn = 3; turn < 23; turn += 2) {
    expect(await wake(bench, id, turn)).toMatchObject({ path: 'warm' })
    expect(await bootOf(bench, id)).toBe(bootId)
    await bench.hibernated(fenceOf(id, turn - 1, turn + 1))
  }
})

test('a copy whose process ends costs the memory nothing, and the desktop does not count as stopped', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  bench.said.length = 0
  bench.driver.die(id, 'killed')
  await until(() => !bench.parts.turns.busy(id))
  expect(await state(bench, id)).toEqual({ ...sleeping, warm: false })
  expect(bench.said.filter(({ name }) => name === 'desktop.observed')).toEqual([])
  expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory', ready: true, path: 'restore' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('an agent that starts again knows the copies of the one before it', async () => {
  await using bench = await start()
  const { id } = await asleep(bench)
  await bench.crash()
  await bench.parts.warm.check()
  expect(bench.parts.warm.facts.copies).toBe(1)
  expect(await state(bench, id)).toEqual({ ...sleeping, warm: true })
  expect(await wake(bench, id)).toMatchObject({ path: 'warm' })
})

test.each(['hibernate.before-save', 'hibernate.after-save', 'hibernate.before-complete'])(
  'a hibernation cut off at %s loses nothing, and is finished when it is asked for again',
  async (name) => {
    await using bench = await start()
    const id = newId()
    await bench.awake(fenceOf(id, 1, 1))
    const bootId = await bootOf(bench, id)
    await bench.crashAt(name, () => bench.hibernated(fenceOf(id, 1, 2)))
    await bench.hibernated(fenceOf(id, 1, 2))
    expect(await state(bench, id)).toEqual({ ...sleeping, warm: true })
    expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory' })
    expect(await bootOf(bench, id)).toBe(bootId)
  },
)

test.each(['wake.before-mark', 'wake.after-mark', 'wake.after-resume'])(
  'a warm wake cut off at %s goes on to the same end',
  async (name) => {
    await using bench = await start()
    const { id, bootId } = await asleep(bench)
    await bench.crashAt(name, () => wake(bench, id))
    expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory', path: 'warm' })
    expect(await bootOf(bench, id)).toBe(bootId)
  },
)

test.each(['wake.before-mark', 'wake.after-mark', 'wake.after-resume'])(
  'a warm wake that is undone after %s sleeps with its memory',
  async (name) => {
    await using bench = await start()
    const { id, bootId } = await asleep(bench)
    await bench.crashAt(name, () => wake(bench, id))
    expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'hibernated', memoryLost: false })
    expect(await wake(bench, id, 4)).toMatchObject({ resumedFrom: 'memory' })
    expect(await bootOf(bench, id)).toBe(bootId)
  },
)

test.each(['warm.before-drop', 'warm.after-drop'])('an agent that dies at %s loses nothing', async (name) => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  await bench.crashAt(name, () => bench.parts.warm.dropAll())
  expect(await wake(bench, id)).toMatchObject({ path: name === 'warm.before-drop' ? 'warm' : 'restore' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('a copy whose process fails is replaced by its image', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  bench.driver.faults.failNext('isKept')
  expect(await wake(bench, id)).toMatchObject({ path: 'restore' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('while nobody can tell whether a copy has run, it is not ended; the wake is retried, and it stays known', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  bench.driver.faults.failNext('isKept', 1, 'host_unreachable')
  await expect(wake(bench, id)).rejects.toMatchObject({ code: 'host_unreachable' })
  expect(await domainOf(bench, id)).toBe('paused')
  expect(bench.parts.warm.facts.copies).toBe(1)
  expect(await wake(bench, id)).toMatchObject({ path: 'warm' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('a copy whose image is damaged goes on', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  await wake(bench, id)
  await bench.hibernated(fenceOf(id, 2, 4))
  const folder = join(bench.memoryFolder, id)
  for (const name of await readdir(folder)) if (name.endsWith('.save')) await truncate(join(folder, name), 10)
  expect(await wake(bench, id, 5)).toMatchObject({ resumedFrom: 'memory' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('where the hypervisor cannot save and keep, the desktop is saved without a copy', async () => {
  await using bench = await start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const bootId = await bootOf(bench, id)
  bench.driver.faults.failNext('save', 1, 'hypervisor_failed')
  await bench.hibernated(fenceOf(id, 1, 2))
  expect(await state(bench, id)).toEqual({ ...sleeping, warm: false })
  expect(await wake(bench, id)).toMatchObject({ path: 'restore' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

const failures: Record<string, (bench: Bench) => void> = {
  'in the middle': ({ driver }) => driver.faults.failNext('save', 1, 'host_disk_full'),
  'when the memory was written': ({ failpoints }) =>
    failpoints.set('hibernate.after-save', () => Promise.reject(new Error('it failed'))),
}

test.each(Object.keys(failures))('a hibernation that fails %s leaves a desktop with all that it had', async (when) => {
  await using bench = await start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const bootId = await bootOf(bench, id)
  failures[when]!(bench)
  await expect(bench.hibernated(fenceOf(id, 1, 2))).rejects.toThrow()
  expect(await until(() => bootOf(bench, id).catch(() => undefined))).toBe(bootId)
  expect(bench.driver.isStripped(id)).toBe(false)
})

test('a wake that gives the memory up boots, and ends the copy', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  expect(await bench.awake(fenceOf(id, 2, 3), 'discard', 'require')).toMatchObject({ path: 'boot' })
  expect(await bootOf(bench, id)).not.toBe(bootId)
})

test('a copy that something else resumed is the desktop’s memory, and its image is never restored', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  await bench.driver.resume(id)
  await until(async () => (await state(bench, id)).memory === 'spent')
  await bench.driver.suspend(id)
  expect(await bench.parts.warm.dropAll()).toBe(0)
  expect(await domainOf(bench, id)).toBe('paused')
  expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('one that ran while no agent looked is not ended as a copy', async () => {
  await using bench = await start()
  const { id, bootId } = await asleep(bench)
  await bench.down()
  await bench.up()
  // There is no event of it: the agent did not run.
  bench.driver.listen = () => undefined
  const domain = bench.driver.domain.bind(bench.driver)
  bench.driver.isKept = async () => false
  await bench.parts.warm.check()
  await bench.parts.warm.dropAll()
  expect((await domain(id))?.state).toBe('paused')
  expect((await state(bench, id)).memory).toBe('spent')
  expect(await wake(bench, id)).toMatchObject({ resumedFrom: 'memory' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('copies end with the oldest first: what is too old, more than allowed, or needed by others', async () => {
  let memory = plenty
  await using bench = await start({ maxMiB: 40, hostMemory: () => memory })
  const [first, second, third] = [await asleep(bench), await asleep(bench), await asleep(bench)]
  const warm = async () => Promise.all([first, second, third].map(async ({ id }) => (await state(bench, id)).warm))
  await bench.parts.warm.check()
  expect(await warm()).toEqual([false, true, true])
  memory = { totalMiB: 10_000, availableMiB: 1_010 }
  await bench.parts.warm.check()
  expect(await warm()).toEqual([false, true, true])
  const makesSpace = bench.awake(fenceOf(newId(), 1, 1))
  await until(async () => !(await state(bench, second.id)).warm)
  memory = plenty
  await makesSpace
  expect((await wake(bench, first.id)).path).toBe('restore')
})

test('a copy that cannot be ended holds up no guest that needs its memory, and is ended later', async () => {
  let memory = plenty
  await using bench = await start({ hostMemory: () => memory })
  const { id, bootId } = await asleep(bench)
  memory = { totalMiB: 10_000, availableMiB: 1_010 }
  bench.driver.faults.failNext('isKept', 1, 'host_unreachable')
  await bench.awake(fenceOf(newId(), 1, 1))
  expect((await state(bench, id)).warm).toBe(true)
  memory = { totalMiB: 10_000, availableMiB: 900 }
  await bench.parts.warm.check()
  expect((await state(bench, id)).warm).toBe(false)
  memory = plenty
  expect(await wake(bench, id)).toMatchObject({ path: 'restore' })
  expect(await bootOf(bench, id)).toBe(bootId)
})

test('all domains are listed only when copies may have changed by themselves', async () => {
  await using bench = await start()
  const { id } = await asleep(bench)
  await bench.parts.warm.check()
  const { counts } = bench.driver.faults
  const before = counts.list
  for (let n = 0; n < 3; n++) await bench.parts.warm.check()
  expect(counts.list).toBe(before)
  bench.driver.die(id)
  await bench.parts.warm.check()
  expect(bench.parts.warm.facts.copies).toBe(0)
})

test.each([
  ['one that is too large', { maxMiB: 15 }],
  ['any where memory is scarce', { hostMemory: () => ({ totalMiB: 1_000, availableMiB: 50 }) }],
  ['any where none are allowed', { maxMiB: 0 }],
])('a hibernation keeps no copy: %s', async (_what, options) => {
  await using bench = await start(options)
  const { id } = await asleep(bench)
  expect(await domainOf(bench, id)).toBeUndefined()
  expect(await wake(bench, id)).toMatchObject({ path: 'restore' })
})

test('a destroy and a saved memory that fails leave no process', async () => {
  await using bench = await start()
  const { id } = await asleep(bench)
  await bench.destroyed(fenceOf(id, 2, 3))
  expect(await domainOf(bench, id)).toBeUndefined()
  const failing = newId()
  await bench.awake(fenceOf(failing, 1, 1))
  bench.driver.faults.failNext('save', 1, 'host_disk_full')
  await expect(bench.hibernated(fenceOf(failing, 1, 2))).rejects.toMatchObject({ code: 'host_disk_full' })
  expect(await domainOf(bench, failing)).toBe('running')
})

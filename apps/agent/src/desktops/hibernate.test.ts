import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'

const counter = (bench: Bench, id: string) => bench.run(id, 'cat /proc/sys/kernel/random/boot_id')

async function awakeDesktop(bench: Bench) {
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  return { id, bootId: await counter(bench, id) }
}

const files = async (bench: Bench, id: string) =>
  (await readdir(join(bench.memoryFolder, id)).catch(() => [])).filter((name) => !name.endsWith('.tmp')).sort()

test('a hibernation that is repeated answers the same', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  const first = await bench.hibernated(fenceOf(id, 1, 2))
  expect(first.memoryBytes).toBeGreaterThan(0)
  expect(await bench.hibernated(fenceOf(id, 1, 2))).toEqual(first)
})

test('the turn of a hibernation is on the disk before an older memory is removed, and it is acknowledged', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  const from = bench.failpoints.hits.length
  await bench.hibernated(fenceOf(id, 1, 2))
  const order = bench.failpoints.hits.slice(from).filter((name) => /hibernate|sync/.test(name))
  const [save, settle] = [['hibernate.before-save', 'hibernate.after-save'], 'hibernate.before-complete']
  expect(order).toEqual([...save, 'journal.before-sync', settle])
  const again = bench.failpoints.hits.length
  await bench.hibernated(fenceOf(id, 1, 3))
  const repeated = bench.failpoints.hits.slice(again).filter((name) => /hibernate|sync/.test(name))
  expect(repeated).toEqual(['journal.before-sync', settle])
})

test.each([
  ['save', 'host_disk_full'],
  ['save', 'hypervisor_failed'],
] as const)('where %s fails with %s the guest runs on, and nothing half-written is left', async (operation, code) => {
  await using bench = await Bench.start()
  const { id, bootId } = await awakeDesktop(bench)
  bench.driver.faults.failNext(operation, 1, code)
  await expect(bench.hibernated(fenceOf(id, 1, 2))).rejects.toMatchObject({ code })
  expect(await counter(bench, id)).toBe(bootId)
  expect(await files(bench, id)).toEqual([])
  expect(await bench.hibernated(fenceOf(id, 1, 3))).toMatchObject({ memoryBytes: expect.any(Number) })
})

test.each(['hibernate.before-save', 'hibernate.after-save', 'hibernate.before-complete', 'journal.before-write'])(
  'a hibernation cut off at %s loses nothing, and is finished when it is asked for again',
  async (name) => {
    await using bench = await Bench.start()
    const { id, bootId } = await awakeDesktop(bench)
    await bench.crashAt(name, () => bench.hibernated(fenceOf(id, 1, 2)))
    const { domain, memory } = await bench.observe(id)
    expect([domain, memory]).toEqual(
      name.includes('before-save') || name.includes('journal') ? ['running', 'none'] : ['absent', 'complete'],
    )
    expect(await bench.hibernated(fenceOf(id, 1, 2))).toMatchObject({ memoryBytes: expect.any(Number) })
    expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
      resumedFrom: 'memory',
      ready: true,
      path: 'restore',
    })
    expect(await counter(bench, id)).toBe(bootId)
  },
)

test('a hibernation cut off after its save is as good as settled: the next wake finds its memory', async () => {
  await using bench = await Bench.start()
  const { id, bootId } = await awakeDesktop(bench)
  await bench.crashAt('hibernate.after-save', () => bench.hibernated(fenceOf(id, 1, 2)))
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
  expect(await counter(bench, id)).toBe(bootId)
})

test('a desktop whose process is gone cannot be saved, and the refusal says so', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  bench.driver.die(id)
  await expect(bench.hibernated(fenceOf(id, 1, 2))).rejects.toMatchObject({ code: 'memory_lost' })
})

test('each new image replaces the older ones', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  for (const cycle of [1, 2, 3]) {
    await bench.hibernated(fenceOf(id, cycle, cycle * 2))
    expect(await files(bench, id)).toHaveLength(2)
    await bench.awake(fenceOf(id, cycle + 1, cycle * 2 + 1), 'require', 'require')
  }
  await bench.tidy(fenceOf(id, 4, 7))
  expect(await files(bench, id)).toEqual([])
})

test('the undo of a wake that cannot save waits for room rather than lose the memory', async () => {
  await using bench = await Bench.start()
  const { id, bootId } = await awakeDesktop(bench)
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  bench.driver.faults.failNext('save', 1, 'host_disk_full')
  await expect(bench.asleep(fenceOf(id, 2, 3))).rejects.toMatchObject({ code: 'host_disk_full' })
  expect(await counter(bench, id)).toBe(bootId)
  expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'hibernated', memoryLost: false })
})

test('the undo of a wake whose guest cannot be saved stops it, and says that memory was lost', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  bench.driver.faults.failNext('save', 1, 'hypervisor_failed')
  expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'stopped', memoryLost: true })
  expect(await bench.asleep(fenceOf(id, 2, 3))).toMatchObject({ state: 'stopped', memoryLost: true })
})

test('where the hypervisor does not answer, the outcome is unknown and asking again finds it out', async () => {
  await using bench = await Bench.start()
  const { id, bootId } = await awakeDesktop(bench)
  bench.driver.faults.down = true
  await expect(bench.hibernated(fenceOf(id, 1, 2))).rejects.toMatchObject({ code: 'host_unreachable' })
  bench.driver.faults.down = false
  await bench.hibernated(fenceOf(id, 1, 2))
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  expect(await counter(bench, id)).toBe(bootId)
})

test('rejoin orders are obeyed only while the journal still says what the leader saw', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  const order = (turn: number, what: 'keep' | 'stop' | 'remove' | 'suspend') =>
    bench.ask('host.rejoin', { epoch: 1, orders: [{ desktopId: id, seen: { generation: 1, turn }, order: what }] })
  expect((await order(0, 'remove')).items).toMatchObject([{ domain: 'running', disk: true }])
  expect((await order(1, 'suspend')).items).toMatchObject([{ domain: 'paused' }])
  expect((await order(1, 'stop')).items).toMatchObject([{ domain: 'absent', disk: true }])
  expect((await order(1, 'remove')).items).toEqual([])
  await expect(bench.awake(fenceOf(id, 2, 2))).rejects.toMatchObject({ code: 'stale_turn' })
})

test('rejoin keep removes what is spent, and nothing that could still be used', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  await bench.hibernated(fenceOf(id, 1, 2))
  const keep = (generation: number, turn: number) =>
    bench.ask('host.rejoin', { epoch: 1, orders: [{ desktopId: id, seen: { generation, turn }, order: 'keep' }] })
  expect((await keep(1, 2)).items).toMatchObject([{ memory: 'complete' }])
  await bench.awake(fenceOf(id, 2, 3), 'require', 'require')
  expect(await files(bench, id)).toHaveLength(2)
  expect((await keep(2, 3)).items).toMatchObject([{ memory: 'none', domain: 'running' }])
  expect(await files(bench, id)).toEqual([])
})

test('what changes without a command is reported once, with the hypervisor’s reason', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  await until(() => bench.parts.watch.running().length === 1)
  bench.driver.die(id, 'guest powered off')
  await until(() => bench.said.some(({ name }) => name === 'desktop.observed'))
  await bench.parts.watch.checkAll()
  const reports = bench.said.filter(({ name }) => name === 'desktop.observed')
  expect(reports).toMatchObject([{ report: { desktopId: id, domain: 'absent', reason: 'guest powered off' } }])
})

test('after a gap in the events what has changed meanwhile is found', async () => {
  await using bench = await Bench.start()
  const { id } = await awakeDesktop(bench)
  await until(() => bench.parts.watch.running().length === 1)
  const { rm } = await import('node:fs/promises')
  await rm(join(bench.folder, 'simulated', 'domains', `${id}.json`))
  bench.driver.gap()
  await until(() => bench.said.some(({ name }) => name === 'desktop.observed'))
  expect(bench.parts.watch.running()).toEqual([])
})

test('a guest that stands still is reported with its cause, and one that has suspended itself is saved awake', async () => {
  await using bench = await Bench.start()
  for (const [how, pause] of [
    ['memory', 'suspended'],
    ['paused', 'paused'],
    ['space', 'space'],
  ] as const) {
    const { id, bootId } = await awakeDesktop(bench)
    bench.driver.standStill(id, how)
    await until(() => bench.said.some(({ report }) => 'pause' in report && report.desktopId === id))
    const told = bench.said.filter(({ report }) => 'domain' in report && report.desktopId === id)
    expect(told).toMatchObject([{ report: { domain: 'paused', pause } }])
    const resumed = bench.driver.faults.counts.resume ?? 0
    await bench.hibernated(fenceOf(id, 1, 2))
    expect((bench.driver.faults.counts.resume ?? 0) - resumed, how).toBe(how === 'memory' ? 1 : 0)
    expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({ resumedFrom: 'memory' })
    expect(await counter(bench, id)).toBe(bootId)
  }
})

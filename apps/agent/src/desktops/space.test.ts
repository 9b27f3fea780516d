// Guarantee: a full disk is emptied by destroying desktops, and what it has stopped goes on by itself when there is space. On a
// disk that is really full, with real guests: `test/real/agent-space.test.ts`.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'

const full = { code: 'host_disk_full' }
const noSpace = () => {
  throw Object.assign(new Error('no space left on device'), { code: 'ENOSPC' })
}

test('a destroy and an undo are obeyed where nothing can be written any more; new work is refused', async () => {
  await using bench = await Bench.start()
  const [awake, undone, fresh] = [newId(), newId(), newId()]
  for (const id of [awake, undone]) await bench.awake(fenceOf(id, 1, 1))
  bench.failpoints.set('journal.before-write', noSpace)
  await expect(bench.awake(fenceOf(fresh, 1, 1))).rejects.toMatchObject(full)
  await expect(bench.hibernated(fenceOf(awake, 1, 2))).rejects.toMatchObject(full)
  expect(bench.parts.space.problem).toBeNull()
  await bench.destroyed(fenceOf(awake, 1, 2, { epoch: 2 }))
  expect(await bench.asleep(fenceOf(undone, 1, 1, { epoch: 2 }))).toMatchObject({
    state: 'hibernated',
    memoryLost: false,
  })
  expect(bench.parts.space.problem).toMatch(/state folder is full; destroy/)
  bench.failpoints.set('journal.before-write', undefined)
  await bench.crash()
  expect(bench.parts.journal.highestEpoch).toBe(2)
  expect(bench.parts.journal.read(awake)).toMatchObject({ state: 'done', destroyedAt: expect.any(String) })
  expect(bench.parts.journal.read(undone)).toMatchObject({ state: 'done', takenBack: true })
  expect(bench.parts.space.problem).toBeNull()
  await bench.awake(fenceOf(fresh, 1, 1, { epoch: 2 }))
})

test('a reserve that was half used when the agent died is whole again', async () => {
  await using bench = await Bench.start()
  bench.failpoints.set('journal.before-write', noSpace)
  await bench.destroyed(fenceOf(newId(), 1, 1))
  expect(bench.parts.journal.hasReserve).toBe(false)
  bench.failpoints.set('journal.before-write', undefined)
  await bench.crash()
  expect(bench.parts.journal.hasReserve).toBe(true)
})

test('a guest that was paused for want of space is told once, ails its host, and goes on when there is room', async () => {
  await using bench = await Bench.start()
  const { watch, space, journal } = bench.parts
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  await until(() => watch.running().length === 1)
  bench.said.length = 0
  bench.driver.faults.diskFull = true
  bench.driver.standStill(id, 'space')
  await until(() => space.problem)
  expect(space.problem).toMatch(/1 of its desktops are paused until there is space/)
  for (let i = 0; i < 3; i++) await watch.checkAll()
  expect(bench.said).toMatchObject([{ name: 'desktop.observed', report: { desktopId: id, domain: 'paused' } }])
  expect(journal.read(id)?.running).toBe(true)
  await space.check()
  expect(await bench.observe(id)).toMatchObject({ domain: 'paused' })
  bench.driver.faults.diskFull = false
  // Also by an agent that has just started, which has seen no pause.
  await bench.crash()
  await bench.parts.space.check()
  await until(() => bench.parts.watch.running().length === 1)
  expect(bench.parts.space.problem).toBeNull()
  expect(await bench.run(id, 'echo on')).toBe('on')
})

test('a guest that is not to run stays paused when there is room again', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  bench.driver.standStill(id, 'space')
  await until(() => bench.parts.space.problem)
  const order = { desktopId: id, seen: { generation: 1, turn: 1 }, order: 'suspend' as const }
  await bench.ask('host.rejoin', { epoch: 1, orders: [order] })
  await bench.parts.space.check()
  expect(await bench.observe(id)).toMatchObject({ domain: 'paused' })
})

test('a wake whose guest was stopped by a full disk says so', async () => {
  await using bench = await Bench.start()
  const id = newId()
  bench.driver.faults.guestsSilent = true
  bench.failpoints.set('wake.after-resume', () => bench.driver.standStill(id, 'space'))
  const wake = bench.awake(fenceOf(id, 1, 1, { deadlineMs: 500 }))
  await expect(wake).rejects.toMatchObject({ ...full, detail: expect.stringContaining('guest was paused') })
})

test('a desktop that cannot be resumed holds up no other', async () => {
  await using bench = await Bench.start()
  const { watch, space } = bench.parts
  const ids = [newId(), newId(), newId()]
  for (const id of ids) await bench.awake(fenceOf(id, 1, 1))
  await until(() => watch.running().length === 3)
  bench.driver.faults.diskFull = true
  for (const id of ids) bench.driver.standStill(id, 'space')
  await until(() => watch.outOfSpace().length === 3)
  bench.driver.faults.diskFull = false
  bench.driver.faults.failNext('resume', 1, 'hypervisor_failed')
  await space.check()
  const states = async () => Promise.all(ids.map(async (id) => (await bench.observe(id)).domain))
  expect((await states()).filter((state) => state === 'running')).toHaveLength(2)
  await watch.checkAll()
  await space.check()
  expect(await states()).toEqual(['running', 'running', 'running'])
})

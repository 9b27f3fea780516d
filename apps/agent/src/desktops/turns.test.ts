import { mkdtempDisposableSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { newId, Refusal } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'
import { Journal } from './journal.ts'
import { Turns } from './turns.ts'

test('a lower turn or generation is refused, and changes nothing', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 2, 5))
  for (const [generation, turn] of [
    [2, 4],
    [1, 9],
  ] as const) {
    await expect(bench.hibernated(fenceOf(id, generation, turn))).rejects.toMatchObject({ code: 'stale_turn' })
    await expect(bench.destroyed(fenceOf(id, generation, turn))).rejects.toMatchObject({ code: 'stale_turn' })
  }
  expect(await bench.observe(id)).toMatchObject({ domain: 'running', generation: 2, turn: 5 })
})

test('a generation counts before a turn', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 9))
  expect(await bench.awake(fenceOf(id, 2, 1))).toMatchObject({ resumedFrom: 'memory', ready: true })
})

test('a lower epoch is refused whatever its turn, also after a restart', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1, { epoch: 5 }))
  await bench.crash()
  await expect(bench.hibernated(fenceOf(id, 1, 2, { epoch: 4 }))).rejects.toMatchObject({ code: 'stale_epoch' })
})

test('the same turn of another operation is refused', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  await expect(bench.hibernated(fenceOf(id, 1, 1, { operationId: newId() }))).rejects.toMatchObject({
    code: 'stale_turn',
  })
})

test('once a turn was taken back, nothing forward of it is obeyed any more', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  expect(await bench.asleep(fenceOf(id, 1, 1))).toMatchObject({ state: 'hibernated', memoryLost: false })
  await expect(bench.awake(fenceOf(id, 1, 1))).rejects.toMatchObject({ code: 'superseded' })
  expect(await bench.asleep(fenceOf(id, 1, 1))).toMatchObject({ state: 'hibernated', memoryLost: false })
})

test('taking a wake back while it waits for its guest ends the waiting', async () => {
  await using bench = await Bench.start()
  const id = newId()
  bench.driver.faults.silentGuests.add(id)
  const superseded = expect(bench.awake(fenceOf(id, 1, 1))).rejects.toMatchObject({
    code: 'superseded',
  })
  await until(() => bench.said.some(({ report }) => 'phase' in report && report.phase === 'waiting-for-guest'))
  expect(await bench.asleep(fenceOf(id, 1, 1))).toMatchObject({ state: 'stopped', memoryLost: false })
  await superseded
})

test.each(['startCold', 'save', 'restorePaused', 'makeDisk'] as const)(
  'a destroy overtakes work that hangs in %s, and nothing is left',
  async (operation) => {
    await using bench = await Bench.start()
    const id = newId()
    if (operation === 'save' || operation === 'restorePaused') await bench.awake(fenceOf(id, 1, 1))
    if (operation === 'restorePaused') await bench.hibernated(fenceOf(id, 1, 2))
    const release = bench.driver.faults.hang(operation)
    const work = operation === 'save' ? bench.hibernated(fenceOf(id, 1, 3)) : bench.awake(fenceOf(id, 2, 3))
    const superseded = expect(work).rejects.toMatchObject({ code: 'superseded' })
    await until(() => bench.parts.turns.busy(id))
    const destroying = bench.destroyed(fenceOf(id, 2, 4))
    if (operation === 'makeDisk') release()
    expect(await destroying).toEqual({})
    release()
    await superseded
    expect(await bench.observe(id)).toMatchObject({ domain: 'absent', memory: 'none', disk: false, turn: 4 })
    expect(await bench.ask('host.inventory', { known: [] })).toMatchObject({ items: [] })
  },
)

test('after a destroy a late wake of any turn is refused, and a repeated destroy is as good as the first', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  await bench.destroyed(fenceOf(id, 1, 2))
  await bench.crash()
  await expect(bench.awake(fenceOf(id, 1, 1))).rejects.toMatchObject({ code: 'stale_turn' })
  await expect(bench.awake(fenceOf(id, 2, 3))).rejects.toMatchObject({ code: 'stale_turn' })
  expect(await bench.destroyed(fenceOf(id, 1, 2))).toEqual({})
  expect(await bench.destroyed(fenceOf(id, 1, 3))).toEqual({})
})

test.each(['destroy.after-kill', 'journal.before-write'])(
  'a destroy that is cut off at %s is finished by the next',
  async (name) => {
    await using bench = await Bench.start()
    const id = newId()
    await bench.awake(fenceOf(id, 1, 1))
    await bench.crashAt(name, () => bench.destroyed(fenceOf(id, 1, 2)))
    expect(await bench.destroyed(fenceOf(id, 1, 2))).toEqual({})
    expect(await bench.ask('host.inventory', { known: [] })).toMatchObject({ items: [] })
  },
)

test('an order of the leader waits for nothing and ends nothing: while the turn it names is being worked on, it is passed over', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.awake(fenceOf(id, 1, 1))
  const release = bench.driver.faults.hang('save')
  const hibernating = bench.hibernated(fenceOf(id, 1, 2))
  await until(() => bench.driver.faults.counts.save)
  const orders = [{ desktopId: id, seen: { generation: 1, turn: 2 }, order: 'stop' as const }]
  const { items } = await bench.ask('host.rejoin', { epoch: 1, orders })
  release()
  expect(items).toMatchObject([{ domain: 'running', turn: 2 }])
  await hibernating
  expect(await bench.awake(fenceOf(id, 2, 3), 'require', 'require')).toMatchObject({
    resumedFrom: 'memory',
    ready: true,
    path: 'restore',
  })
})

test('twenty desktops at once are all served, four at a time', async () => {
  await using bench = await Bench.start()
  const ids = Array.from({ length: 20 }, newId)
  await Promise.all(ids.map((id) => bench.awake(fenceOf(id, 1, 1))))
  await Promise.all(ids.map((id) => bench.hibernated(fenceOf(id, 1, 2))))
  const { items } = await bench.ask('host.inventory', { known: [] })
  expect(items.map(({ memory }) => memory)).toEqual(Array(20).fill('complete'))
})

test('work that fails when a later turn is there already is answered with its own refusal', async () => {
  using folder = mkdtempDisposableSync(join(tmpdir(), 'dormouse-turns-'))
  await using journal = await Journal.open(folder.path)
  const turns = new Turns(journal, { accepted: () => undefined, idle: () => undefined })
  const id = newId()
  const work = async () => {
    await journal.accept(fenceOf(id, 1, 2), 'a later command')
    throw new Refusal('memory_lost', 'there is none')
  }
  await expect(turns.run(fenceOf(id, 1, 1), 'an earlier command', work)).rejects.toMatchObject({ code: 'memory_lost' })
})

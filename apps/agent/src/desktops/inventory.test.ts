// Guarantee: desktops that were destroyed long ago do not make a host's inventory cost more.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, spec } from '../testing/bench.ts'

/** Destroys this many desktops. */
async function bury(bench: Bench, count: number): Promise<void> {
  await Promise.all(Array.from({ length: count }, () => bench.destroyed(fenceOf(newId(), 1, 1))))
}

/** How many calls of the hypervisor one inventory takes, and what is in it. */
async function inventoried(bench: Bench) {
  const { counts } = bench.driver.faults
  const before = counts.list ?? 0
  const { items } = await bench.ask('host.inventory', { known: [] })
  return { looks: (counts.list ?? 0) - before, items: items.toSorted((a, b) => (a.desktopId < b.desktopId ? -1 : 1)) }
}

test('an inventory asks the hypervisor once, however many desktops there are and were', async () => {
  await using bench = await Bench.start()
  const [awake = '', saved = '', gone = ''] = [newId(), newId(), newId()].sort()
  for (const id of [awake, saved, gone]) await bench.awake(fenceOf(id, 1, 1))
  await bench.hibernated(fenceOf(saved, 1, 2))
  await bench.destroyed(fenceOf(gone, 1, 2))
  await bench.crash()
  const before = await inventoried(bench)
  expect(before.looks).toBe(1)
  expect(before.items).toMatchObject([
    { desktopId: awake, generation: 1, turn: 1, domain: 'running', memory: 'none', disk: true, reason: null },
    { desktopId: saved, generation: 1, turn: 2, domain: 'absent', memory: 'complete', disk: true },
  ])
  for (const item of before.items) {
    const { activity, ...seen } = await bench.observe(item.desktopId)
    expect(seen).toEqual({ ...item, calls: 0 })
    expect(activity?.busy).toEqual(item.domain === 'running' ? [] : undefined)
  }
  await bury(bench, 1_000)
  await bench.crash()
  expect(bench.parts.journal.all()).toHaveLength(1_003)
  expect(await inventoried(bench)).toEqual(before)
})

test('a desktop that stands up again after its destruction is in the inventory', async () => {
  await using bench = await Bench.start()
  const id = newId()
  await bench.destroyed(fenceOf(id, 1, 1))
  expect((await inventoried(bench)).items).toEqual([])
  await bench.driver.makeDisk(id, spec)
  expect((await inventoried(bench)).items).toMatchObject([{ desktopId: id, domain: 'absent', disk: true }])
})

test('a leader that names digests gets only what differs', async () => {
  await using bench = await Bench.start()
  const [one, other] = [`${newId().slice(0, -1)}1`, `${newId().slice(0, -1)}2`]
  for (const id of [one, other]) await bench.awake(fenceOf(id, 1, 1))
  const first = await bench.ask('host.inventory', { known: [] })
  expect(first.items).toHaveLength(2)
  const known = first.digests
  expect(await bench.ask('host.inventory', { known })).toEqual({ items: [], digests: known })
  await bench.hibernated(fenceOf(other, 1, 2))
  const later = await bench.ask('host.inventory', { known })
  expect(later.items.map(({ desktopId }) => desktopId)).toEqual([other])
  expect(later.digests).toEqual(known.with(2, later.digests[2]!))
})

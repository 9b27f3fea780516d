// Guarantee: a desktop that moves before it has its network gets it on its new host, and a disk of its own size.
import { newId } from '@dormouse/contract'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { Bench, fenceOf, spec as smallSpec, until } from '../testing/bench.ts'
import { TestMove } from '../testing/move.ts'

const spec = { ...smallSpec, diskGiB: 4 }
const ever = 1_000

let home: Bench
let away: Bench
let id: string

beforeEach(async () => {
  const installationId = newId()
  home = await Bench.start({ installationId, templatesMiB: 1_000 })
  away = await Bench.start({ installationId })
  id = newId()
  await home.awake(fenceOf(newId(), 1, 1))
  await home.parts.templates.settled()
})
afterEach(async () => {
  await home[Symbol.asyncDispose]()
  await away[Symbol.asyncDispose]()
})

const wake = async () =>
  expect(await home.awake(fenceOf(id, 1, 1), 'allow', 'make', spec)).toMatchObject({ path: 'template' })

const troubles = {
  'its host cannot give it a network': async () => {
    home.driver.faults.failNext('plug', ever)
    await wake()
    await until(() => home.driver.faults.counts.plug)
    await home.parts.turns.settled()
  },
  'its host’s agent has died': () => home.crashAt('first-wake.after-done', wake),
}

describe.each(Object.keys(troubles) as (keyof typeof troubles)[])('where %s', (trouble) => {
  beforeEach(() => troubles[trouble]())

  test('it moves awake', async () => {
    expect(home.driver.hasAddress(id)).toBe(false)
    await new TestMove({ from: home, to: away, desktopId: id, kind: 'live', generation: 1, turn: 2, spec }).whole()
    await expectFurnished()
  })

  test('it moves asleep', async () => {
    await home.hibernated(fenceOf(id, 1, 2))
    await new TestMove({ from: home, to: away, desktopId: id, kind: 'cold', generation: 1, turn: 3, spec }).whole()
    await away.awake(fenceOf(id, 2, 5), 'require', 'require', spec)
    await expectFurnished()
  })

  test('it stays, and its host goes on trying', async () => {
    const move = new TestMove({ from: home, to: away, desktopId: id, kind: 'live', generation: 1, turn: 2, spec })
    await move.across()
    await move.back()
    expect(home.parts.journal.read(id)).toMatchObject({ running: true, furnished: false })
    home.driver.faults.failNext('plug', 0)
    await home.parts.furnishing.check()
    await until(() => home.parts.journal.read(id)?.furnished)
    expect(home.driver.hasAddress(id)).toBe(true)
  })
})

async function expectFurnished(): Promise<void> {
  await until(() => away.parts.journal.read(id)?.furnished)
  expect(away.driver.hasAddress(id)).toBe(true)
  expect(await away.driver.diskGiB(id)).toBe(spec.diskGiB)
}

// Guarantee: a batch sends its events once and in order, and whatever ends it, nothing stays pressed.
import { type InputCommand, newId } from '@dormouse/contract'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import type { HeardInput } from '../driver/simulated/screen.ts'
import { Bench, fenceOf, until } from '../testing/bench.ts'

let bench: Bench
const id = newId()
let turn = 1
let generation = 0
beforeAll(async () => {
  bench = await Bench.start()
})
afterAll(() => bench[Symbol.asyncDispose]())
beforeEach(async () => {
  if (bench.house.journal.read(id)?.running) return
  await bench.awake(fenceOf(id, ++generation, ++turn))
})

const batch = (actions: InputCommand['actions'], more: Partial<InputCommand> = {}): InputCommand => ({
  ...{
    desktopId: id,
    generation,
    batchId: newId(),
    actions,
    space: null,
    expectedScreen: null,
    paceMs: 1,
    settle: null,
  },
  ...more,
})
const perform = (actions: InputCommand['actions'], more?: Partial<InputCommand>, signal?: AbortSignal) =>
  bench.ask('input.perform', batch(actions, more), signal)

const heard = (): HeardInput[] => [...bench.driver.heardBy(id)]
/** What is heard from now on. */
function listening() {
  const before = heard().length
  return () => heard().slice(before)
}
const stillDown = () => {
  const keys = new Set<number>()
  let mask = 0
  for (const one of heard()) {
    if (!('key' in one)) mask = one.mask
    else if (one.down) keys.add(one.key)
    else keys.delete(one.key)
  }
  return { keys: [...keys], mask }
}
const nothingDown = { keys: [], mask: 0 }

test('events arrive in their order, and the result says where the pointer is', async () => {
  const since = listening()
  const result = await perform([
    { type: 'click', x: 0, y: 10 },
    { type: 'type', text: 'A' },
  ])
  expect(result).toMatchObject({ outcome: 'done', performed: 2, reason: null })
  expect(result).toMatchObject({ seen: { width: 320, height: 200, pointer: { x: 0, y: 10 }, settled: null } })
  await until(() => since().length === 7)
  expect(since()).toEqual([
    { x: 0, y: 10, mask: 0 },
    { x: 0, y: 10, mask: 1 },
    { x: 0, y: 10, mask: 0 },
    ...[
      [0x2a, true],
      [0x1e, true],
      [0x1e, false],
      [0x2a, false],
    ].map(([key, down]) => ({ key, down })),
  ])
})

test('the screen settles after a change, and its picture and sequence are those of then', async () => {
  const before = await bench.ask('screen.look', { ...look, desktopId: id, generation })
  const settle = { quietMs: 50, maxMs: 10_000 }
  const result = await perform([{ type: 'click', x: 100, y: 50 }], { settle })
  expect(result).toMatchObject({ outcome: 'done', seen: { settled: true, changed: true } })
  const after = await bench.ask('screen.look', { ...look, desktopId: id, generation })
  expect(after.sequence).not.toBe(before.sequence)
  expect('seen' in result && result.seen?.sequence).toBe(after.sequence)
})
const look = { wait: null, after: null, settle: { quietMs: 50, maxMs: 5_000 }, picture: null }

test('a screen that changes nothing is reported at the end of the time, not failed', async () => {
  const result = await perform([{ type: 'wait', ms: 1 }], { settle: { quietMs: 50, maxMs: 100 } })
  expect(result).toMatchObject({ outcome: 'done', seen: { settled: false, changed: false } })
})

test.each([
  ['a character', [{ type: 'type', text: 'abcŘ' }] as const, {}, { why: 'character', character: 'Ř', index: 0 }],
  [
    'a place',
    [
      { type: 'wait', ms: 1 },
      { type: 'click', x: 320, y: 0 },
    ] as const,
    {},
    { why: 'outside', index: 1 },
  ],
  ['a size', [{ type: 'click' }] as const, { expectedScreen: { width: 1, height: 1 } }, { why: 'screen_changed' }],
])('%s that is not there is refused before the first event', async (_what, actions, more, refused) => {
  const since = listening()
  expect(await perform([...actions], more)).toEqual({ refused: expect.objectContaining(refused) })
  expect(since()).toEqual([])
})

const long: InputCommand['actions'] = [
  { type: 'down', x: 5, y: 5 },
  { type: 'hold', keys: ['Control', 'Shift'], ms: 50_000 },
  { type: 'type', text: 'never' },
]

test('an interrupted batch ends between two events, and releases what it holds', async () => {
  const batchId = newId()
  const done = perform(long, { batchId })
  await until(() => stillDown().keys.length === 2)
  await bench.ask('input.interrupt', { desktopId: id, batchId: newId() })
  await bench.ask('input.interrupt', { desktopId: id, batchId })
  expect(await done).toMatchObject({ outcome: 'interrupted', performed: 1, reason: 'another client took the claim' })
  await until(() => stillDown().keys.length === 0)
  expect(stillDown()).toEqual(nothingDown)
})

test('a batch whose caller is lost stops and releases what it holds', async () => {
  const link = new AbortController()
  const done = perform(long, {}, link.signal)
  await until(() => stillDown().keys.length === 2)
  link.abort(new Error('the link was lost'))
  expect(await done).toMatchObject({ outcome: 'interrupted', performed: 1 })
  await until(() => stillDown().keys.length === 0)
  expect(stillDown()).toEqual(nothingDown)
})

test('a hibernation waits until everything is released, and lets nothing begin before the memory is saved', async () => {
  const done = perform(long)
  await until(() => stillDown().keys.length === 2)
  bench.failpoints.set('hibernate.before-save', async () => {
    expect(stillDown()).toEqual(nothingDown)
    await expect(perform([{ type: 'type', text: 'x' }])).rejects.toMatchObject({ code: 'guest_unavailable' })
  })
  await bench.hibernated(fenceOf(id, generation, ++turn))
  bench.failpoints.set('hibernate.before-save', undefined)
  expect(await done).toMatchObject({ outcome: 'interrupted', reason: 'the desktop is about to hibernate' })
})

test('two batches come one after the other, and a queue of them is bounded', async () => {
  const since = listening()
  const all = ['ab', 'cd', 'ef', 'gh', 'ij'].map((text) => perform([{ type: 'type', text }]))
  const results = await Promise.all(all)
  expect(results.map((one) => ('outcome' in one ? one.outcome : one.refused.why))).toEqual([
    ...Array(4).fill('done'),
    'busy',
  ])
  const downs = since().flatMap((one) => ('key' in one && one.down ? [one.key] : []))
  expect(downs).toEqual([0x1e, 0x30, 0x2e, 0x20, 0x12, 0x21, 0x22, 0x23])
})

test('a screen that ends in the middle fails the batch', async () => {
  const done = perform(long)
  await until(() => stillDown().keys.length === 2)
  bench.driver.die(id)
  expect(await done).toMatchObject({ outcome: 'failed', performed: 1, seen: null })
})

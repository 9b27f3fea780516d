// Guarantee: a batch sends its events once and in order, and whatever ends it, nothing stays pressed.
import { type InputCommand, newId } from '@dormouse/contract'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
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
  if (bench.parts.journal.read(id)?.running) return
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
/** What arrives from now on. */
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
const look = { wait: null, after: null, settle: { quietMs: 50, maxMs: 5_000 }, picture: null, share: 'a' }

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

const [capsLock, numLock] = [0x3a, 0x45]
const taps = (heard: HeardInput[], code: number) =>
  heard.filter((one) => 'key' in one && one.key === code && one.down).length
const screen = () => bench.driver.screenOf(id)
/** The lights of Caps Lock and Num Lock. */
const lightsWere = (leds: number) => {
  screen().leds = leds
}

describe.each([0, 200])('in a guest that takes %d ms to switch a light', (lightMs) => {
  beforeEach(async () => {
    screen().lightMs = lightMs
    screen().leds = 2
    await reopened()
  })
  afterEach(async () => {
    await until(() => screen().switching === 0)
    screen().lightMs = 0
  })

  test.each([
    ['text', [{ type: 'type', text: 'Ab' }], capsLock, 4],
    ['a letter with a modifier', [{ type: 'key', keys: ['Control', 'c'] }], capsLock, 4],
    ['a letter that is held', [{ type: 'click', x: 1, y: 1, hold: ['z'] }], capsLock, 4],
    ['digits of the keypad', [{ type: 'key', keys: ['Numpad7'] }], numLock, 0],
    ['the separator of the keypad', [{ type: 'hold', keys: ['kp_decimal'], ms: 1 }], numLock, 0],
  ] as [string, InputCommand['actions'], number, number][])(
    'a lock is switched for %s, and back',
    async (_what, actions, lock, leds) => {
      lightsWere(leds)
      await reopened()
      const since = listening()
      expect(await perform(actions)).toMatchObject({ outcome: 'done' })
      await until(() => taps(since(), lock) === 2)
      const keys = since().flatMap((one) => ('key' in one && one.down ? [one.key] : []))
      expect([keys[0], keys.at(-1)]).toEqual([lock, lock])
      await until(() => screen().leds === leds)
      expect(stillDown().keys).toEqual([])
    },
  )

  test('a lock that a batch has pressed is known to the next one, and stays as it was pressed', async () => {
    await perform([{ type: 'key', keys: ['CapsLock'] }])
    const since = listening()
    expect(
      await perform([
        { type: 'type', text: 'a' },
        { type: 'key', keys: ['CapsLock'] },
        { type: 'type', text: 'a' },
      ]),
    ).toMatchObject({ outcome: 'done' })
    // Off for the first text and on again; then off as requested, which the second text needs.
    await until(() => taps(since(), capsLock) === 3)
    await until(() => screen().leds === 2)
  })
})

/** The next batch opens a new connection, which gets the state of the lights. */
const reopened = async () => (await bench.parts.inputs.hold(id, 'a test'))[Symbol.dispose]()

test.each([
  [
    'keys that a lock does not change',
    4,
    [
      { type: 'key', keys: ['Enter'] },
      { type: 'key', keys: ['ArrowUp'] },
    ],
  ],
  ['text where no lock is in the way', 2, [{ type: 'type', text: 'Ab' }]],
  ['operators of the keypad', 0, [{ type: 'key', keys: ['NumpadAdd'] }]],
] as [string, number, InputCommand['actions']][])('no lock is switched for %s', async (_what, leds, actions) => {
  lightsWere(leds)
  await reopened()
  const since = listening()
  expect(await perform(actions)).toMatchObject({ outcome: 'done' })
  await until(() => since().length > 1)
  expect(taps(since(), capsLock) + taps(since(), numLock)).toBe(0)
})

test('a lock whose key does not switch it fails the batch before the first letter', async () => {
  lightsWere(4)
  screen().deadLocks.add(capsLock)
  await reopened()
  const since = listening()
  const reason = 'Caps Lock is on in the guest, and its key does not switch it off; switch it there'
  expect(await perform([{ type: 'type', text: 'a' }])).toMatchObject({ outcome: 'failed', performed: 0, reason })
  expect(since().filter((one) => 'key' in one && one.key !== capsLock)).toEqual([])
  screen().deadLocks.clear()
  lightsWere(2)
  await reopened()
})

test.each([
  ['a text', capsLock, [{ type: 'type', text: 'a'.repeat(500) }], 'Caps Lock', 2, 6],
  ['a text for which it was switched off', capsLock, [{ type: 'type', text: 'a'.repeat(500) }], 'Caps Lock', 6, 6],
  ['a digit that is held', numLock, [{ type: 'hold', keys: ['Numpad7'], ms: 1_000 }], 'Num Lock', 2, 0],
] as [string, number, InputCommand['actions'], string, number, number][])(
  'a lock that a person switches during %s fails the batch, and stays as that person left it',
  async (_what, lock, actions, name, leds, after) => {
    lightsWere(leds)
    await reopened()
    const since = listening()
    const done = perform(actions)
    await until(() => since().some((one) => 'key' in one && one.down && one.key !== capsLock))
    await until(() => screen().switching === 0)
    await screen().switchLight(lock)
    const reason = `${name} was switched in the guest while the batch typed; check what has been typed`
    expect(await done).toMatchObject({ outcome: 'failed', performed: 0, reason })
    expect([screen().leds, stillDown()]).toEqual([after, nothingDown])
    lightsWere(2)
    await reopened()
  },
)

test('an interrupted batch leaves the locks as they were', async () => {
  lightsWere(6)
  await reopened()
  const batchId = newId()
  const done = perform([{ type: 'hold', keys: ['a'], ms: 50_000 }], { batchId })
  await until(() => stillDown().keys.includes(0x1e))
  expect(screen().leds).toBe(2)
  await bench.ask('input.interrupt', { desktopId: id, batchId })
  expect(await done).toMatchObject({ outcome: 'interrupted' })
  await until(() => screen().leds === 6)
  expect(stillDown()).toEqual(nothingDown)
  lightsWere(2)
  await reopened()
})

test('a screen that ends in the middle fails the batch', async () => {
  const done = perform(long)
  await until(() => stillDown().keys.length === 2)
  bench.driver.die(id)
  expect(await done).toMatchObject({ outcome: 'failed', performed: 1, seen: null })
})

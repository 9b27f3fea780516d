// Guarantee: what keeps a desktop awake is exactly what counts, and the time at which it sleeps is that of the last of it.
import { expect, test } from 'vitest'
import { conditionOf, type Facts, judge } from './judge.ts'

const minute = 60_000
const facts = (changes: Partial<Facts> = {}): Facts => ({
  state: 'awake',
  timeoutMs: 10 * minute,
  policy: ['command', 'transfer', 'screen', 'input'],
  enabled: true,
  busy: false,
  ages: {},
  locks: [],
  wokeAgoMs: 60 * minute,
  changedAgoMs: 60 * minute,
  seen: { watchedMs: 60 * minute, busy: [], ages: {} },
  ...changes,
})
const seen = (changes: Partial<NonNullable<Facts['seen']>>) => ({
  seen: { watchedMs: 60 * minute, busy: [], ages: {}, ...changes },
})
const judged = (changes: Partial<Facts>) => {
  const { because, sleepsInMs } = judge(facts(changes))
  return [because.map(({ reason }) => reason), sleepsInMs]
}

test.each<[string, Partial<Facts>, string[], number | null]>([
  ['nothing', {}, [], 0],
  ['a command in flight', seen({ busy: ['command'], ages: { command: 0 } }), ['command'], null],
  ['a command lately', seen({ ages: { command: minute } }), ['command'], 9 * minute],
  ['a command that is stored', { ages: { command: minute } }, ['command'], 9 * minute],
  [
    'the later of the two',
    { ages: { command: 20 * minute }, ...seen({ ages: { command: 2 * minute } }) },
    ['command'],
    8 * minute,
  ],
  ['a command just too long ago', seen({ ages: { command: 10 * minute } }), [], 0],
  ['a command in flight that does not count', { policy: [], ...seen({ busy: ['command'] }) }, ['command'], null],
  ['a command that does not count', { policy: ['cpu'], ...seen({ ages: { command: 1 } }) }, [], 0],
  ['processors by default', seen({ busy: ['cpu'], ages: { cpu: 0 } }), [], 0],
  ['processors where they count', { policy: ['cpu'], ...seen({ busy: ['cpu'] }) }, ['cpu'], null],
  ['input on the screen, noted up to 5 s early', { ages: { screen: 10 * minute } }, ['screen'], 5_000],
  ['a wake', { wokeAgoMs: minute }, ['wake'], 9 * minute],
  ['a change of its settings', { changedAgoMs: minute }, ['settings'], 9 * minute],
  ['an agent that has just started', seen({ watchedMs: minute }), ['host'], 9 * minute],
  ['a host that is unreachable', { seen: undefined }, ['host'], null],
  ['an operation', { busy: true }, ['operation'], null],
  ['a timeout of 0', { timeoutMs: 0 }, ['never'], null],
  ['idle that is off', { enabled: false }, ['off'], null],
  [
    'a wake lock',
    { locks: [{ name: 'a', reason: 'b', leftMs: minute }], ages: { wake_lock: -minute } },
    ['wake_lock'],
    11 * minute,
  ],
  ['a wake lock that has ended', { ages: { wake_lock: minute } }, ['wake_lock'], 9 * minute],
  ['a wake and a command', { wokeAgoMs: 3 * minute, ages: { command: 2 * minute } }, ['command', 'wake'], 8 * minute],
  ['a desktop that sleeps', { state: 'hibernated', ages: { command: 1 } }, [], null],
])('%s', (_, changes, reasons, sleepsInMs) => {
  expect(judged(changes)).toEqual([reasons, sleepsInMs])
})

test('it is not looked at again before it can fall due, and soon where that is not known', () => {
  expect(judge(facts({ wokeAgoMs: minute, ...seen({ busy: ['command'] }) })).lookAgainInMs).toBe(10 * minute)
  expect(judge(facts({ ages: { command: 9 * minute } })).lookAgainInMs).toBe(minute)
  expect(judge(facts({ busy: true })).lookAgainInMs).toBe(3_000)
  expect(judge(facts({ seen: undefined })).lookAgainInMs).toBe(30_000)
  expect(judge(facts({ seen: undefined, timeoutMs: 1_000, wokeAgoMs: 2_000 })).lookAgainInMs).toBe(3_000)
  expect(judge(facts({ timeoutMs: 24 * 60 * minute, wokeAgoMs: 0 })).lookAgainInMs).toBe(60 * minute)
})

test('its host gets the classes that it sees itself', () => {
  expect(conditionOf(facts({ policy: ['command', 'screen', 'cpu'] }))).toEqual({
    forMs: 10 * minute,
    classes: ['command', 'cpu'],
  })
})

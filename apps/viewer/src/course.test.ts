// Guarantee: the page comes back by itself where it may, and never fights for a claim that another took.
import { screenCloses, wakingReason } from '@dormouse/contract/screens'
import { expect, test } from 'vitest'
import { courseAfter, type PageState, wordsOf } from './course.ts'

const occasion = { desktopId: 'abc', claim: 'view', reason: '' } as const
const closed = (code: number, more: object = {}) =>
  courseAfter({ code, reason: '', darkForMs: 0, attempts: 0, hasTicket: true, ...more })

test.each([
  [screenCloses.takenOver, 'taken-over'],
  [screenCloses.destroyed, 'destroyed'],
  [screenCloses.revoked, 'ended'],
])('%i is final: %s', (code, state) => {
  expect(closed(code)).toEqual({ state })
})

test('a page whose desktop sleeps looks again, however long it takes', () => {
  expect(closed(screenCloses.asleep, { darkForMs: 3_000_000, attempts: 900 })).toMatchObject({
    state: 'asleep',
    againInMs: 2_000,
  })
})

test('one whose desktop is on its way looks often, and asks nobody to wake it', () => {
  expect(closed(screenCloses.asleep, { reason: wakingReason })).toEqual({ state: 'waking', againInMs: 500 })
  expect(wordsOf('waking', { ...occasion, reason: wakingReason })).toMatchObject({ todo: '', command: '' })
})

test.each([1001, 1006, 1011, screenCloses.hostLost])('%i is tried again, less and less often, for minutes', (code) => {
  const waits = [0, 1, 2, 3, 9].map((attempts) => closed(code, { attempts }).againInMs)
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000])
  expect(closed(code, { darkForMs: 301_000 })).toEqual({ state: 'lost' })
})

test('without a ticket there is no way back', () => {
  expect(closed(1006, { hasTicket: false })).toEqual({ state: 'ended' })
})

const states: PageState[] = [
  ...(['connecting', 'live', 'reconnecting', 'taken-over', 'asleep', 'waking'] as const),
  ...(['destroyed', 'ended', 'lost'] as const),
]

test.each(states)('%s is said in the bar, and over the screen where nothing is to be seen', (state) => {
  const { short, title } = wordsOf(state, occasion)
  expect(short).not.toBe('')
  expect(title === '').toBe(state === 'live')
})

test('what is to be done is a command for this desktop and this claim', () => {
  expect(wordsOf('asleep', occasion).command).toBe('dormouse wake abc')
  expect(wordsOf('taken-over', occasion).command).toBe('dormouse open abc --takeover --view')
  expect(wordsOf('ended', { ...occasion, claim: 'control' }).command).toBe('dormouse open abc')
})

test('why a link ended is said as the service said it, without its advice', () => {
  const reason = 'the claim was let go meanwhile; ask for a new URL'
  expect(wordsOf('ended', { ...occasion, reason }).text).toBe('The claim was let go meanwhile.')
  expect(wordsOf('ended', occasion).text).toContain('revoked')
})

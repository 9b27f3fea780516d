// Guarantee: the page comes back by itself where it may, and never fights for a claim that another took.
import { screenCloses } from '@dormouse/contract/screens'
import { expect, test } from 'vitest'
import { courseAfter, words } from './course.ts'

const closed = (code: number, more: object = {}) =>
  courseAfter({ code, darkForMs: 0, attempts: 0, hasTicket: true, ...more })

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

test.each([1001, 1006, 1011, screenCloses.hostLost])('%i is tried again, less and less often, for minutes', (code) => {
  const waits = [0, 1, 2, 3, 9].map((attempts) => closed(code, { attempts }).againInMs)
  expect(waits).toEqual([250, 500, 1_000, 2_000, 4_000])
  expect(closed(code, { darkForMs: 301_000 })).toEqual({ state: 'lost' })
})

test('without a ticket there is no way back', () => {
  expect(closed(1006, { hasTicket: false })).toEqual({ state: 'ended' })
})

test('every state in which nothing is to be seen says so', () => {
  for (const [state, { title }] of Object.entries(words)) {
    expect(title !== undefined, state).toBe(state !== 'connecting' && state !== 'live')
  }
})

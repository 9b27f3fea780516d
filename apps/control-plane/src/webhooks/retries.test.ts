// Guarantee: a failed delivery is tried again within ten seconds, and then for three days.
import { expect, test } from 'vitest'
import { defaultRetrySecs } from '../config.ts'
import { Retries } from './retries.ts'

const day = 86_400_000
const retries = new Retries(
  defaultRetrySecs.map((secs) => secs * 1_000),
  () => 0.5,
)

test('the first retry is within ten seconds, the last about three days later, and there is an end', () => {
  expect(retries.pauseMs({ tries: 1, ageMs: 0 })).toBeLessThan(10_000)
  expect([2.9, 3].map((days) => retries.isOver(days * day))).toEqual([false, true])
  const pauses = defaultRetrySecs.map((_, at) => retries.pauseMs({ tries: at + 1, ageMs: 0 }))
  expect(pauses.every((pause) => pause !== undefined && pause > 0)).toBe(true)
  expect(retries.pauseMs({ tries: defaultRetrySecs.length + 1, ageMs: 0 })).toBeUndefined()
  expect(retries.pauseMs({ tries: 3, ageMs: 3 * day })).toBeUndefined()
})

test('a receiver that fails is asked less and less often, but once a minute at least', () => {
  expect([0, 60_000, day].map((ms) => retries.probePauseMs(ms))).toEqual([1_000, 6_000, 60_000])
})

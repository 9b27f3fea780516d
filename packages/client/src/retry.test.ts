import { expect, test } from 'vitest'
import { RateLimitError } from './errors.ts'
import { delayMs, parseRetryAfter } from './retry.ts'

const now = Date.parse('2026-01-02T03:04:05Z')

test.each([
  ['0', 0],
  ['7', 7000],
  ['Fri, 02 Jan 2026 03:04:15 GMT', 10_000],
  ['Fri, 02 Jan 2026 03:00:00 GMT', 0],
  ['Friday, 02-Jan-26 03:04:06 GMT', 1000],
])('Retry-After %s is read as seconds or HTTP-date', (value, expected) => {
  expect(parseRetryAfter(value, now)).toBe(expected)
})

test.each([null, '', 'soon', '-5', '1.5', '2026-01-02'])('Retry-After %s says nothing', (value) => {
  expect(parseRetryAfter(value, now)).toBeUndefined()
})

test('without Retry-After the delay has full jitter below 250 ms, doubled per attempt', () => {
  const failure = new RateLimitError('')
  expect([0, 1, 2, 3].map((attempt) => delayMs(attempt, failure, () => 1))).toEqual([250, 500, 1000, 2000])
  expect(delayMs(2, failure, () => 0)).toBe(0)
  expect(delayMs(2, failure, () => 0.5)).toBe(500)
})

test('Retry-After is obeyed as it is, and capped at 30 s', () => {
  const after = (retryAfterMs: number) => delayMs(3, new RateLimitError('', { retryAfterMs }), () => 0.5)
  expect([after(0), after(2000), after(30_000), after(3_600_000)]).toEqual([0, 2000, 30_000, 30_000])
})

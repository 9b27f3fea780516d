import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RateLimit } from './rate-limit.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

const refused = (limit: RateLimit, caller: string): boolean => {
  try {
    limit.count(caller)
    return false
  } catch {
    return true
  }
}

test('one too many in a second is refused, for that caller alone, until the second is over', () => {
  const limit = new RateLimit(2)
  expect([1, 2, 3].map(() => refused(limit, 'a'))).toEqual([false, false, true])
  expect(refused(limit, 'b')).toBe(false)
  vi.advanceTimersByTime(1_000)
  expect(refused(limit, 'a')).toBe(false)
})

test('a count that is taken back leaves room for another', () => {
  const limit = new RateLimit(1)
  expect(refused(limit, 'a')).toBe(false)
  limit.forgive('a')
  expect(refused(limit, 'a')).toBe(false)
  expect(refused(limit, 'a')).toBe(true)
})

test('a flood of callers takes no count away, and those beyond ten thousand share one', () => {
  const limit = new RateLimit(1)
  expect(refused(limit, 'first')).toBe(false)
  const flood = Array.from({ length: 20_000 }, (_, i) => refused(limit, `caller-${i}`))
  expect(flood.filter((no) => !no).length).toBe(10_000)
  expect(refused(limit, 'first')).toBe(true)
})

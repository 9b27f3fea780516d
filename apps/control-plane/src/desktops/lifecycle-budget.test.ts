// Guarantee: a loop of creates and wakes is refused above its budget, with the time after which it may go on, and no other organisation is.
import { expect, test } from 'vitest'
import { costOf, LifecycleBudget } from './lifecycle-budget.ts'

test('a burst passes, then a steady number each second; what was not used is given back', () => {
  let now = 0
  const budget = new LifecycleBudget(() => now)
  expect(budget.take('a', 50_000)).toBeUndefined()
  expect(budget.take('a')).toMatchObject({
    code: 'rate_limited',
    extra: { retryAfterSecs: 1, rateLimit: { limit: 5 } },
  })
  expect(budget.take('b')).toBeUndefined()
  budget.giveBack('a')
  expect([budget.take('a'), budget.take('a')?.code]).toEqual([undefined, 'rate_limited'])
  now += 1_000
  const later = Array.from({ length: 6 }, () => budget.take('a')?.code)
  expect(later).toEqual([...Array(5).fill(undefined), 'rate_limited'])
  now += 3_600_000_000
  budget.giveBack('a')
  expect([budget.take('a', 50_000), budget.take('a')?.code]).toEqual([undefined, 'rate_limited'])
})

test('labels cost what they take, so that long ones fill no disk faster', () => {
  const long = Object.fromEntries(Array.from({ length: 32 }, (_, i) => [`key-${i}`, 'x'.repeat(255)]))
  expect([costOf({}), costOf({ team: 'qa' }), costOf(long)]).toEqual([1, 1, 9])
})

// Guarantee: who waits for a connection waits as long as the database makes progress; control goes first; work and requests take
// turns; a crowd that would wait for minutes is refused, each with another Retry-After.
import type { Refusal } from '@dormouse/contract'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Lane, Lanes } from './lanes.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function oneConnection() {
  const lanes = new Lanes(1)
  const served: Lane[] = []
  const enter = (lane: Lane) => lanes.enter(lane).then(() => void served.push(lane))
  return { lanes, served, enter }
}

test('control goes first, work and requests take turns', async () => {
  const { lanes, served, enter } = oneConnection()
  await enter('requests')
  const all = (['requests', 'requests', 'work', 'work', 'control'] as const).map(enter)
  for (let i = 0; i < 5; i++) {
    lanes.leave(true)
    await Promise.resolve()
  }
  await Promise.all(all)
  expect(served.slice(1)).toEqual(['control', 'work', 'requests', 'work', 'requests'])
})

test('a database that returns no connection fails those who wait', async () => {
  const { enter } = oneConnection()
  await enter('work')
  const failed = expect(enter('work')).rejects.toThrow('timeout exceeded when trying to connect')
  await vi.advanceTimersByTimeAsync(5_000)
  await failed
})

test('those who wait go on waiting while connections return', async () => {
  const { lanes, served, enter } = oneConnection()
  await enter('work')
  void enter('requests')
  // Longer than the patience with a stalled database. The control work that enters first takes each connection that returns.
  for (let waitedMs = 0; waitedMs < 10_000; waitedMs += 500) {
    void enter('control')
    lanes.leave(true)
    await vi.advanceTimersByTimeAsync(500)
  }
  expect(served).not.toContain('requests')
  lanes.leave(true)
  await vi.advanceTimersByTimeAsync(0)
  expect(served).toContain('requests')
})

test('a request that would wait for minutes is refused, and the times to come back are spread', async () => {
  const { lanes, enter } = oneConnection()
  await enter('work')
  const crowd = Array.from({ length: 60_001 }, () => enter('requests'))
  const refused = await Promise.all(
    Array.from({ length: 50 }, () => enter('requests').catch((error: Refusal) => error)),
  )
  const times = new Set(refused.map((error) => (error as Refusal).extra.retryAfterSecs))
  expect((refused[0] as Refusal).code).toBe('overloaded')
  expect(times.size).toBeGreaterThan(10)
  for (let i = 0; i <= crowd.length; i++) lanes.leave(true)
  await Promise.all(crowd)
})

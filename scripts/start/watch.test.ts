// Guarantee: a daemon that ends is restarted, ever more slowly if that does not help, and not at all once it is lost.
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { watchOver } from './watch.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

test('the pauses between restarts grow to half a minute', async () => {
  const starts: number[] = []
  const start = async () => void starts.push(performance.now())
  const stop = watchOver({ name: 'it', runs: () => false, start, say: () => undefined, pollMs: 1_000 })
  await vi.advanceTimersByTimeAsync(100_000)
  await stop()
  const pauses = starts.slice(1).map((at, i) => at - starts[i]!)
  // One second until the next look, then the pause.
  expect(pauses).toEqual([3_000, 5_000, 9_000, 17_000, 31_000, 31_000])
})

test('where there is nothing left to restart, the reason is given once and the watch ends', async () => {
  const given: string[] = []
  const start = () => Promise.reject(new Error('it must not be started'))
  const said: string[] = []
  const watched = { name: 'it', runs: () => true, start, say: (line: string) => void said.push(line), pollMs: 5 }
  const stop = watchOver({ ...watched, lost: () => 'its folder is gone', giveUp: (why) => void given.push(why) })
  await vi.advanceTimersByTimeAsync(1_000)
  await stop()
  expect([given, said]).toEqual([['its folder is gone'], []])
})

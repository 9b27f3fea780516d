// Guarantee: a daemon that ends is restarted, ever more slowly where that does not help, and not at all once it is lost.
import { expect, test } from 'vitest'
import { waitFor } from '../../test/wait-for.ts'
import { watchOver } from './watch.ts'

test('the pauses between restarts grow', async () => {
  const starts: number[] = []
  const start = async () => void starts.push(performance.now())
  const stop = watchOver({ name: 'it', runs: () => false, start, say: () => undefined, pollMs: 20 })
  await waitFor('some restarts', () => starts.length >= 5)
  await stop()
  // A loaded machine only adds to a pause.
  expect(starts.at(-1)! - starts.at(-2)!).toBeGreaterThan(160)
})

test('where there is nothing left to restart, the reason is given once and the watch ends', async () => {
  const given: string[] = []
  const start = () => Promise.reject(new Error('it must not be started'))
  const said: string[] = []
  const watched = { name: 'it', runs: () => true, start, say: (line: string) => void said.push(line), pollMs: 5 }
  const stop = watchOver({ ...watched, lost: () => 'its folder is gone', giveUp: (why) => void given.push(why) })
  await waitFor('the reason', () => given.length > 0)
  await stop()
  expect([given, said]).toEqual([['its folder is gone'], []])
})

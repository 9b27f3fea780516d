// Guarantee: turns are neither lost nor given twice, also where one who waits leaves as another gives his back.
import { expect, test } from 'vitest'
import { Turns } from './turns.ts'

const stays = new AbortController().signal
const refused = (taking: Promise<void>) => expect(taking).rejects.toMatchObject({ code: 'rate_limited' })

test('one who leaves in the very tick in which a turn is given back holds none', async () => {
  const turns = new Turns({ atOnce: 2, perCaller: 1, waitMs: 60_000, waitingPerCaller: 2 })
  await turns.take('one', stays)
  const leaving = new AbortController()
  const left = turns.take('one', leaving.signal)
  leaving.abort()
  turns.giveBack('one')
  await refused(left)
  expect(turns.counts).toEqual({ taken: 0, waiting: 0 })
})

test('a caller waits for his own turns while others have theirs, and too many who wait are refused', async () => {
  const turns = new Turns({ atOnce: 2, perCaller: 1, waitMs: 60_000, waitingPerCaller: 1 })
  await turns.take('one', stays)
  const second = turns.take('one', stays)
  await refused(turns.take('one', stays))
  await turns.take('other', stays)
  expect(turns.counts).toEqual({ taken: 2, waiting: 1 })
  turns.giveBack('one')
  await second
  expect(turns.counts).toEqual({ taken: 2, waiting: 0 })
})

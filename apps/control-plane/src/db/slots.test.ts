// Guarantee: no slot is lost or given twice, even if a waiting caller leaves as another releases its slot.
import { expect, test } from 'vitest'
import { Slots } from './slots.ts'

const stays = new AbortController().signal
const refused = (taking: Promise<void>) => expect(taking).rejects.toMatchObject({ code: 'rate_limited' })

test('a caller that leaves in the tick in which a slot is released holds none', async () => {
  const slots = new Slots({ atOnce: 2, perCaller: 1, waitMs: 60_000, waitingPerCaller: 2 })
  await slots.acquire('one', stays)
  const leaving = new AbortController()
  const left = slots.acquire('one', leaving.signal)
  leaving.abort()
  slots.release('one')
  await refused(left)
  expect(slots.counts).toEqual({ taken: 0, waiting: 0 })
})

test('a caller at its limit waits while others still get slots, and too many waiting requests are refused', async () => {
  const slots = new Slots({ atOnce: 2, perCaller: 1, waitMs: 60_000, waitingPerCaller: 1 })
  await slots.acquire('one', stays)
  const second = slots.acquire('one', stays)
  await refused(slots.acquire('one', stays))
  await slots.acquire('other', stays)
  expect(slots.counts).toEqual({ taken: 2, waiting: 1 })
  slots.release('one')
  await second
  expect(slots.counts).toEqual({ taken: 2, waiting: 0 })
})

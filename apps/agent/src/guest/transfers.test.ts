// Guarantee: a few transfers of a desktop run at once, the others wait for a limited time, and other desktops do not wait.
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Transfers } from './transfers.ts'

const never = new AbortController().signal

/** Transfers that run until the test ends them. */
function moves(transfers: Transfers, desktopId: string, count: number, signal = never, secs = 60) {
  const started: (() => void)[] = []
  const ended = Array.from({ length: count }, () =>
    transfers.run(desktopId, secs, signal, () => new Promise<void>((resolve) => started.push(resolve))),
  )
  return { started, ended }
}

test('four of a desktop run at once, the next when one ends, and another desktop is not held up', async () => {
  const transfers = new Transfers()
  const [one, other] = [moves(transfers, 'one', 6), moves(transfers, 'other', 1)]
  await setImmediate()
  expect([one.started.length, other.started.length]).toEqual([4, 1])
  one.started[0]!()
  await one.ended[0]
  await setImmediate()
  expect(one.started).toHaveLength(5)
})

test('a transfer that waits too long is refused, and one that is aborted leaves the queue', async () => {
  const transfers = new Transfers()
  const first = moves(transfers, 'one', 4)
  const late = moves(transfers, 'one', 1, never, 0.02)
  const aborted = new AbortController()
  const leaving = moves(transfers, 'one', 1, aborted.signal)
  const refused = expect(late.ended[0]).rejects.toMatchObject({ code: 'guest_unavailable' })
  const left = expect(leaving.ended[0]).rejects.toThrow('gone')
  aborted.abort(new Error('gone'))
  await Promise.all([refused, left])
  for (const end of first.started) end()
  await Promise.all(first.ended)
  expect([late.started.length, leaving.started.length]).toEqual([0, 0])
})

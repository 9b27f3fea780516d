// Guarantee: a few transfers of a desktop move at once, the others wait in line, for so long, and other desktops do not.
import { setImmediate } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { Transfers } from './transfers.ts'

const never = new AbortController().signal

/** Transfers that go on until they are told to end. */
function moves(transfers: Transfers, desktopId: string, count: number, signal = never, secs = 60) {
  const begun: (() => void)[] = []
  const ended = Array.from({ length: count }, () =>
    transfers.run(desktopId, secs, signal, () => new Promise<void>((resolve) => begun.push(resolve))),
  )
  return { begun, ended }
}

test('four of a desktop move at once, the next when one ends, and another desktop is not held up', async () => {
  const transfers = new Transfers()
  const [one, other] = [moves(transfers, 'one', 6), moves(transfers, 'other', 1)]
  await setImmediate()
  expect([one.begun.length, other.begun.length]).toEqual([4, 1])
  one.begun[0]!()
  await one.ended[0]
  await setImmediate()
  expect(one.begun).toHaveLength(5)
})

test('who waits too long is told so, and who goes away leaves the line', async () => {
  const transfers = new Transfers()
  const first = moves(transfers, 'one', 4)
  const late = moves(transfers, 'one', 1, never, 0.02)
  const gone = new AbortController()
  const leaving = moves(transfers, 'one', 1, gone.signal)
  const refused = expect(late.ended[0]).rejects.toMatchObject({ code: 'guest_unavailable' })
  const left = expect(leaving.ended[0]).rejects.toThrow('gone')
  gone.abort(new Error('gone'))
  await Promise.all([refused, left])
  for (const end of first.begun) end()
  await Promise.all(first.ended)
  expect([late.begun.length, leaving.begun.length]).toEqual([0, 0])
})

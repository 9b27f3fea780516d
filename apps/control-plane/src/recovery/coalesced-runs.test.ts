// Guarantee: work for a host never runs twice at once, no request is lost, and requests do not pile up.
import { expect, test } from 'vitest'
import { CoalescedRuns } from './coalesced-runs.ts'

function counting() {
  const runs = new CoalescedRuns()
  const listeners: PromiseWithResolvers<void>[] = []
  const work = () => {
    const listener = Promise.withResolvers<void>()
    listeners.push(listener)
    return listener.promise
  }
  return { listeners, ask: (hostId: string) => runs.request(hostId, work) }
}

test('requests during a run cause one more run, for all of them', async () => {
  const { listeners, ask } = counting()
  const first = ask('a')
  const later = [ask('a'), ask('a'), ask('a')]
  expect(listeners).toHaveLength(1)
  listeners[0]!.resolve()
  await first
  await Promise.resolve()
  expect(listeners).toHaveLength(2)
  const last = ask('a')
  listeners[1]!.resolve()
  await Promise.all(later)
  await Promise.resolve()
  expect(listeners).toHaveLength(3)
  listeners[2]!.resolve()
  await last
  void ask('a')
  expect(listeners).toHaveLength(4)
})

test('a host that hangs delays no other', async () => {
  const { listeners, ask } = counting()
  void ask('hangs')
  const other = ask('works')
  listeners[1]!.resolve()
  await other
  void ask('works')
  expect(listeners).toHaveLength(3)
})

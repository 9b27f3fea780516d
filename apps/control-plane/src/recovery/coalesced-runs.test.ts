// Guarantee: work for a host never runs twice at once, no request is lost, and requests do not pile up.
import { expect, test } from 'vitest'
import { RunsByHost } from './coalesced-runs.ts'

function counting() {
  const runs = new RunsByHost()
  const gates: PromiseWithResolvers<void>[] = []
  const work = () => {
    const gate = Promise.withResolvers<void>()
    gates.push(gate)
    return gate.promise
  }
  return { gates, ask: (hostId: string) => runs.request(hostId, work) }
}

test('requests during a run cause one more run, for all of them', async () => {
  const { gates, ask } = counting()
  const first = ask('a')
  const later = [ask('a'), ask('a'), ask('a')]
  expect(gates).toHaveLength(1)
  gates[0]!.resolve()
  await first
  await Promise.resolve()
  expect(gates).toHaveLength(2)
  const last = ask('a')
  gates[1]!.resolve()
  await Promise.all(later)
  await Promise.resolve()
  expect(gates).toHaveLength(3)
  gates[2]!.resolve()
  await last
  void ask('a')
  expect(gates).toHaveLength(4)
})

test('a host that hangs delays no other', async () => {
  const { gates, ask } = counting()
  void ask('hangs')
  const other = ask('works')
  gates[1]!.resolve()
  await other
  void ask('works')
  expect(gates).toHaveLength(3)
})

// Guarantee: twenty thousand destroyed desktops cost a host no call to its hypervisor. In short, and with desktops that
// live beside them: `apps/agent/src/desktops/inventory.test.ts`.
import { Journal } from '@dormouse/agent/desktops/journal.ts'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'

const tombstones = 20_000

test('20,000 tombstones', async () => {
  await using stack = await Stack.start()
  const { id: awake } = await stack.desktop('awake')
  const { id: gone } = await stack.desktop('awake')
  await stack.ask(gone, 'destroy')
  const lap = async <T>(what: string, work: () => Promise<T>): Promise<T> => {
    const began = performance.now()
    const done = await work()
    console.log(`${what}: ${Math.round(performance.now() - began)} ms`)
    return done
  }
  await lap('a restart with 1 tombstone', () => stack.restartAgent())
  await stack.killAgent()
  {
    await using journal = await Journal.open(stack.host.folder)
    const { desktopId: _, generation, turn, operationId, ...note } = journal.read(gone)!
    const bury = () => journal.raise(newId(), { generation, turn, operationId }, note)
    await lap('20,000 records', () => Promise.all(Array.from({ length: tombstones }, bury)))
  }
  await lap('a restart with 20,000', () => stack.restartAgent())
  await stack.settle()
  const { counts } = stack.host.driver.faults
  // Heartbeats list the domains, too: a few of those may fall into it.
  const before = counts.list ?? 0
  const items = await lap('an inventory', () => stack.inventory())
  expect(items.map(({ desktopId }) => desktopId)).toEqual([awake])
  expect((counts.list ?? 0) - before).toBeLessThan(20)
})

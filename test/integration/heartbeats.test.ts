// Guarantee: heartbeats that arrive together are stored together, and each host's facts are its own.
import type { HostFacts } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'

/** Hosts that are not linked, so that no heartbeat of theirs comes in between. */
async function unlinkedHosts(): Promise<Stack> {
  const stack = await Stack.start({ hosts: 3 })
  for (const host of stack.hosts) await host.kill()
  return stack
}

const heardBy = (stack: Stack, facts: HostFacts[]) =>
  Promise.allSettled(stack.hosts.map(({ id }, at) => stack.replica.parts.hosts.heard(id, facts[at]!)))

test('each host keeps its own facts, and a removed one changes none', async () => {
  await using stack = await unlinkedHosts()
  const facts = await factsOf(stack)
  const memory = [1_111, 2_222, 3_333]
  await stack.database.rows('update hosts set removed_at = now() where id = $1', [stack.hosts[2]!.id])
  await heardBy(
    stack,
    memory.map((memoryMiB) => ({ ...facts, capacity: { ...facts.capacity, memoryMiB } })),
  )
  const rows = await stack.database.rows<{ memory: number }>(
    'select memory_mib as memory from hosts where removed_at is null order by memory_mib',
  )
  expect(rows.map((row) => row.memory)).toEqual([1_111, 2_222])
})

test('facts that cannot be stored harm no other host', async () => {
  await using stack = await unlinkedHosts()
  const facts = await factsOf(stack)
  const answers = await heardBy(stack, [facts, { ...facts, versions: { qemu: '\0' } }, facts])
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

async function factsOf(stack: Stack): Promise<HostFacts> {
  const [row] = await stack.database.rows<{ facts: HostFacts }>('select facts from hosts limit 1')
  return row!.facts
}

// Guarantee: heartbeats that arrive together are stored together, and each host's facts, lease and answer are its own.
import type { HostFacts } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House } from '../house.ts'

/** Hosts that are not linked, so that no heartbeat of theirs comes in between. */
async function unlinkedHosts(): Promise<House> {
  const house = await House.start({ hosts: 3 })
  for (const host of house.hosts) await host.kill()
  return house
}

const heardBy = (house: House, facts: HostFacts[]) =>
  Promise.allSettled(house.hosts.map(({ id }, at) => house.replica.parts.hosts.heard(id, facts[at]!)))

test('each host keeps its own facts, and a removed one gets no lease', async () => {
  await using house = await unlinkedHosts()
  const facts = await factsOf(house)
  const memory = [1_111, 2_222, 3_333]
  await house.database.rows('update hosts set removed_at = now() where id = $1', [house.hosts[2]!.id])
  const answers = await heardBy(
    house,
    memory.map((memoryMiB) => ({ ...facts, capacity: { ...facts.capacity, memoryMiB } })),
  )
  expect(answers.map((answer) => answer.status === 'fulfilled' && answer.value)).toEqual([true, true, false])
  const rows = await house.database.rows<{ memory: number }>(
    'select memory_mib as memory from hosts where removed_at is null order by memory_mib',
  )
  expect(rows.map((row) => row.memory)).toEqual([1_111, 2_222])
})

test('facts that cannot be stored harm no other host', async () => {
  await using house = await unlinkedHosts()
  const facts = await factsOf(house)
  const answers = await heardBy(house, [facts, { ...facts, versions: { qemu: '\0' } }, facts])
  expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

async function factsOf(house: House): Promise<HostFacts> {
  const [row] = await house.database.rows<{ facts: HostFacts }>('select facts from hosts limit 1')
  return row!.facts
}

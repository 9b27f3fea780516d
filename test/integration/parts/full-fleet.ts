// Fills a fleet of equal hosts to the last place with first wakes that are all requested at once.
import { expect } from 'vitest'
import { Stack } from '../../stack.ts'

const memoryMiB = 512

interface Filled {
  /** Until the last one had settled. */
  tookMs: number
  /** How many desktops each host has. */
  counts: number[]
}

/** None is refused while there is capacity, and one more is. Each host holds what it offers and no more. */
export async function fillFleet(hosts: number, each: number): Promise<Filled> {
  await using stack = await Stack.start({ hosts: 0, agent: { memoryMiB: each * memoryMiB } })
  // A few at a time: each start occupies the thread.
  for (let i = 0; i < hosts; i++) await stack.addHost()
  const total = hosts * each
  const ids = await Promise.all(Array.from({ length: total }, async () => (await stack.desktop()).id))
  const began = performance.now()
  const wakes = await Promise.all(ids.map((id) => stack.begin(id, 'wake')))
  const states = new Map<string, number>()
  for (const { id } of wakes) {
    const { state, error_code } = await stack.settled(id)
    const ended = error_code ?? state
    states.set(ended, (states.get(ended) ?? 0) + 1)
  }
  const tookMs = performance.now() - began
  expect(Object.fromEntries(states)).toEqual({ succeeded: total })
  const rows = await stack.database.rows<{ count: number; memory: number }>(
    'select count(*)::int as count, sum(memory_mib)::int as memory from reservations group by host_id',
  )
  expect(rows).toEqual(Array.from({ length: hosts }, () => ({ count: each, memory: each * memoryMiB })))
  const { id } = await stack.desktop()
  expect(await stack.settled((await stack.begin(id, 'wake')).id)).toMatchObject({ error_code: 'no_room' })
  return { tookMs, counts: rows.map(({ count }) => count) }
}

/** With capacity for twice as many, no host has many more than another. */
export async function spreadOver(hosts: number, each: number): Promise<number[]> {
  await using stack = await Stack.start({ hosts: 0, agent: { memoryMiB: 2 * each * memoryMiB } })
  for (let i = 0; i < hosts; i++) await stack.addHost()
  const ids = await Promise.all(Array.from({ length: hosts * each }, async () => (await stack.desktop()).id))
  const wakes = await Promise.all(ids.map((id) => stack.begin(id, 'wake')))
  for (const { id } of wakes) expect((await stack.settled(id)).state).toBe('succeeded')
  const rows = await stack.database.rows<{ count: number }>(
    'select count(*)::int as count from reservations group by host_id order by count',
  )
  return rows.map(({ count }) => count)
}

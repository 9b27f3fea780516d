// Guarantee: operations above what a host does at once wait in a queue that is fair, visible and takes none of their time; the
// wait has a limit, a destroy ends it, and a change of leader keeps it.
import type { OperationJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { House, type HouseOptions } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** A house whose host does one thing at a time, and does it until `release`. */
async function busyHouse(controlPlane: HouseOptions['controlPlane'] = {}) {
  const house = await House.start({ controlPlane: { operationsPerHost: 1, ...controlPlane } })
  const { id } = await house.desktop('awake')
  // One after the other: none of them waits in the queue.
  const sleeping: string[] = []
  while (sleeping.length < 3) sleeping.push((await house.desktop('hibernated')).id)
  const release = house.host.driver.faults.hang('save')
  const saves = house.host.driver.faults.counts.save ?? 0
  const holder = await house.begin(id, 'hibernate')
  await waitFor('the slot to be taken', () => (house.host.driver.faults.counts.save ?? 0) > saves)
  return { house, sleeping, holder, release }
}

const waitsBehind = async (house: House, { id }: OperationJson) => {
  const { progress, state } = await house.operation(id)
  return state === 'pending' && progress?.phase === 'waiting' ? progress.queued_behind : undefined
}

test('what waits says behind how many, and its time begins when its wait ends', async () => {
  const { house, sleeping, holder, release } = await busyHouse()
  await using _house = house
  expect((await house.operation(holder.id)).progress).toMatchObject({ phase: 'saving', queued_behind: null })
  const wakes = [await house.begin(sleeping[0]!, 'wake'), await house.begin(sleeping[1]!, 'wake')]
  expect(wakes.map(({ progress }) => progress?.phase)).toEqual(['waiting', 'waiting'])
  expect(await Promise.all(wakes.map((wake) => waitsBehind(house, wake)))).toEqual([0, 1])
  const waitedMs = Date.now() - Date.parse(wakes[1]!.created_at)
  release()
  for (const wake of wakes) expect(await house.settled(wake.id)).toMatchObject({ state: 'succeeded', progress: null })
  const [row] = await house.database.rows<{ ms: number }>(
    'select (extract(epoch from deadline_at - created_at) * 1000)::float8 as ms from operations where id = $1',
    [wakes[1]!.id],
  )
  expect(row!.ms).toBeGreaterThanOrEqual(40_000 + waitedMs - 1)
})

test('many operations of one organisation do not delay another’s one', async () => {
  const { house, sleeping, release } = await busyHouse()
  await using _house = house
  const { key } = await house.otherOrg
  const wakes = [await house.begin(sleeping[0]!, 'wake'), await house.begin(sleeping[1]!, 'wake')]
  wakes.push(await house.begin(sleeping[2]!, 'wake'))
  await house.database.rows('update desktops set org_id = $1 where id = $2', [house.org.id, sleeping[0]])
  const made = await house.api('POST', '/v1/desktops', { key, body: { tier: 'small' } })
  // It has its disk on the same host: that is the only one.
  await house.database.rows('update desktops set host_id = $1 where id = $2', [house.host.id, made.json.id])
  const other = (await house.api('POST', `/v1/desktops/${made.json.id}/wake`, { key, body: {} })).json as OperationJson
  expect(other.progress).toMatchObject({ phase: 'waiting' })
  const seen = (await house.api('GET', `/v1/operations/${other.id}`, { key })).json as OperationJson
  expect(seen.progress?.queued_behind).toBe(1)
  release()
  for (const wake of wakes) await house.settled(wake.id)
  const order = await house.database.rows<{ id: string }>(
    `select id from operations where kind = 'wake' and settled_at > $1 order by settled_at`,
    [wakes[0]!.created_at],
  )
  expect(order.findIndex(({ id }) => id === other.id)).toBeLessThanOrEqual(1)
})

test('a wait that is too long fails by name, with nothing lost, and the next attempt succeeds', async () => {
  const { house, sleeping, release } = await busyHouse({ queueLimitMs: 200 })
  await using _house = house
  const wake = await house.begin(sleeping[0]!, 'wake')
  expect(await house.settled(wake.id)).toMatchObject({ state: 'failed', error_code: 'waited_too_long' })
  release()
  expect((await house.see(sleeping[0]!)).state).toBe('hibernated')
  await house.settle()
  expect((await house.ask(sleeping[0]!, 'wake')).result?.resumed_from).toBe('memory')
})

test('a destroy ends a wait at once, and waits for nothing itself', async () => {
  const { house, sleeping, holder, release } = await busyHouse()
  await using _house = house
  const wake = await house.begin(sleeping[0]!, 'wake')
  expect(await waitsBehind(house, wake)).toBe(0)
  const destroyed = await house.ask(sleeping[0]!, 'destroy')
  expect(destroyed.result?.cleanup).toBe('done')
  expect(await house.settled(wake.id)).toMatchObject({ state: 'failed', error_code: 'superseded' })
  expect((await house.operation(holder.id)).state).toBe('running')
  release()
  expect((await house.settled(holder.id)).state).toBe('succeeded')
})

test('a new leader finds what waits, and the order in which it came', async () => {
  const { house, sleeping, holder, release } = await busyHouse()
  await using _house = house
  const wakes: OperationJson[] = []
  for (const id of sleeping) wakes.push(await house.begin(id, 'wake'))
  await house.endTerm()
  await waitFor('the queue', async () => (await waitsBehind(house, wakes[2]!)) === 2)
  expect(await waitsBehind(house, wakes[0]!)).toBe(0)
  release()
  expect((await house.settled(holder.id)).state).toBe('succeeded')
  for (const { id } of wakes) expect((await house.settled(id)).state).toBe('succeeded')
  const settled = await Promise.all(wakes.map(async ({ id }) => (await house.operation(id)).settled_at!))
  expect(settled).toEqual(settled.toSorted())
})

test('an operation of the release before, which was stored with a deadline that has passed, is resumed', async () => {
  const { house, sleeping, release } = await busyHouse()
  await using _house = house
  const wake = await house.begin(sleeping[0]!, 'wake')
  await house.database.rows(`update operations set deadline_at = created_at + interval '40 seconds' where id = $1`, [
    wake.id,
  ])
  await house.restartControlPlane()
  release()
  expect((await house.settled(wake.id)).state).toBe('succeeded')
})

test('a storm of first wakes is accepted whole, changes no leader and raises no alarm', async () => {
  await using house = await House.start({ hosts: 3, controlPlane: { databasePool: 3, leadershipLeaseMs: 3_000 } })
  const { leadership, usage } = house.replica.parts
  const { epoch } = leadership.term!
  const ids = await Promise.all(Array.from({ length: 90 }, async () => (await house.desktop()).id))
  const wakes = await Promise.all(ids.map((id) => house.begin(id, 'wake')))
  await usage.compare()
  await usage.compare()
  for (const { id } of wakes) expect((await house.settled(id)).state).toBe('succeeded')
  expect(leadership.term?.epoch).toBe(epoch)
  expect(house.chronicle.lines.filter(({ alarm }) => alarm)).toEqual([])
  expect(house.chronicle.find(/could not be stored|recovery was interrupted/)).toEqual([])
})

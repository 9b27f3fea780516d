// Guarantee: operations above what a host does at once wait in a queue that is fair, visible and takes none of their time; the
// wait has a limit, a destroy ends it, and a change of leader keeps it.
import type { OperationJson } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack, type StackOptions } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

/** A stack whose host does one thing at a time, and does it until `release`. */
async function busyStack(controlPlane: StackOptions['controlPlane'] = {}) {
  const stack = await Stack.start({ controlPlane: { operationsPerHost: 1, ...controlPlane } })
  const { id } = await stack.desktop('awake')
  // One after the other: none of them waits in the queue.
  const sleeping: string[] = []
  while (sleeping.length < 3) sleeping.push((await stack.desktop('hibernated')).id)
  const release = stack.host.driver.faults.hang('save')
  const saves = stack.host.driver.faults.counts.save ?? 0
  const holder = await stack.begin(id, 'hibernate')
  await waitFor('the slot to be taken', () => (stack.host.driver.faults.counts.save ?? 0) > saves)
  return { stack, sleeping, holder, release }
}

const waitsBehind = async (stack: Stack, { id }: OperationJson) => {
  const { progress, state } = await stack.operation(id)
  return state === 'pending' && progress?.phase === 'waiting' ? progress.queued_behind : undefined
}

test('what waits says behind how many, and its time begins when its wait ends', async () => {
  const { stack, sleeping, holder, release } = await busyStack()
  await using _stack = stack
  expect((await stack.operation(holder.id)).progress).toMatchObject({ phase: 'saving', queued_behind: null })
  const wakes = [await stack.begin(sleeping[0]!, 'wake'), await stack.begin(sleeping[1]!, 'wake')]
  expect(wakes.map(({ progress }) => progress?.phase)).toEqual(['waiting', 'waiting'])
  expect(await Promise.all(wakes.map((wake) => waitsBehind(stack, wake)))).toEqual([0, 1])
  const waitedMs = Date.now() - Date.parse(wakes[1]!.created_at)
  release()
  for (const wake of wakes) expect(await stack.settled(wake.id)).toMatchObject({ state: 'succeeded', progress: null })
  const [row] = await stack.database.rows<{ ms: number }>(
    'select (extract(epoch from deadline_at - created_at) * 1000)::float8 as ms from operations where id = $1',
    [wakes[1]!.id],
  )
  expect(row!.ms).toBeGreaterThanOrEqual(40_000 + waitedMs - 1)
})

test('many operations of one organisation do not delay another’s one', async () => {
  const { stack, sleeping, release } = await busyStack()
  await using _stack = stack
  const { key } = await stack.otherOrg
  const wakes = [await stack.begin(sleeping[0]!, 'wake'), await stack.begin(sleeping[1]!, 'wake')]
  wakes.push(await stack.begin(sleeping[2]!, 'wake'))
  await stack.database.rows('update desktops set org_id = $1 where id = $2', [stack.org.id, sleeping[0]])
  const made = await stack.api('POST', '/v1/desktops', { key, body: { tier: 'small' } })
  // It has its disk on the same host: that is the only one.
  await stack.database.rows('update desktops set host_id = $1 where id = $2', [stack.host.id, made.json.id])
  const other = (await stack.api('POST', `/v1/desktops/${made.json.id}/wake`, { key, body: {} })).json as OperationJson
  expect(other.progress).toMatchObject({ phase: 'waiting' })
  const seen = (await stack.api('GET', `/v1/operations/${other.id}`, { key })).json as OperationJson
  expect(seen.progress?.queued_behind).toBe(1)
  release()
  for (const wake of wakes) await stack.settled(wake.id)
  const order = await stack.database.rows<{ id: string }>(
    `select id from operations where kind = 'wake' and settled_at > $1 order by settled_at`,
    [wakes[0]!.created_at],
  )
  expect(order.findIndex(({ id }) => id === other.id)).toBeLessThanOrEqual(1)
})

test('a wait that is too long fails by name, with nothing lost, and the next attempt succeeds', async () => {
  const { stack, sleeping, release } = await busyStack({ queueLimitMs: 200 })
  await using _stack = stack
  const wake = await stack.begin(sleeping[0]!, 'wake')
  expect(await stack.settled(wake.id)).toMatchObject({ state: 'failed', error_code: 'waited_too_long' })
  release()
  expect((await stack.see(sleeping[0]!)).state).toBe('hibernated')
  await stack.settle()
  expect((await stack.ask(sleeping[0]!, 'wake')).result?.resumed_from).toBe('memory')
})

test('a destroy ends a wait at once, and waits for nothing itself', async () => {
  const { stack, sleeping, holder, release } = await busyStack()
  await using _stack = stack
  const wake = await stack.begin(sleeping[0]!, 'wake')
  expect(await waitsBehind(stack, wake)).toBe(0)
  const destroyed = await stack.ask(sleeping[0]!, 'destroy')
  expect(destroyed.result?.cleanup).toBe('done')
  expect(await stack.settled(wake.id)).toMatchObject({ state: 'failed', error_code: 'superseded' })
  expect((await stack.operation(holder.id)).state).toBe('running')
  release()
  expect((await stack.settled(holder.id)).state).toBe('succeeded')
})

test('a new leader finds what waits, and the order in which it came', async () => {
  const { stack, sleeping, holder, release } = await busyStack()
  await using _stack = stack
  const wakes: OperationJson[] = []
  for (const id of sleeping) wakes.push(await stack.begin(id, 'wake'))
  await stack.endTerm()
  await waitFor('the queue', async () => (await waitsBehind(stack, wakes[2]!)) === 2)
  expect(await waitsBehind(stack, wakes[0]!)).toBe(0)
  release()
  expect((await stack.settled(holder.id)).state).toBe('succeeded')
  for (const { id } of wakes) expect((await stack.settled(id)).state).toBe('succeeded')
  const settled = await Promise.all(wakes.map(async ({ id }) => (await stack.operation(id)).settled_at!))
  expect(settled).toEqual(settled.toSorted())
})

test('a waiting operation whose stored deadline has passed is resumed', async () => {
  const { stack, sleeping, release } = await busyStack()
  await using _stack = stack
  const wake = await stack.begin(sleeping[0]!, 'wake')
  await stack.database.rows(`update operations set deadline_at = created_at + interval '40 seconds' where id = $1`, [
    wake.id,
  ])
  await stack.restartControlPlane()
  release()
  expect((await stack.settled(wake.id)).state).toBe('succeeded')
})

test('a stored operation that cannot be read raises an alarm and holds up no other; a destroy ends it', async () => {
  const { stack, sleeping, release } = await busyStack()
  await using _stack = stack
  stack.chronicle.foresee(/a stored operation cannot be read/)
  const [unreadable, readable] = [await stack.begin(sleeping[0]!, 'wake'), await stack.begin(sleeping[1]!, 'wake')]
  await stack.database.rows(`update operations set input = '{}' where id = $1`, [unreadable.id])
  await stack.restartControlPlane()
  release()
  expect((await stack.settled(readable.id)).state).toBe('succeeded')
  expect(stack.chronicle.lines).toContainEqual(expect.objectContaining({ alarm: true, operation: unreadable.id }))
  const destroy = await stack.begin(sleeping[0]!, 'destroy')
  expect((await stack.settled(destroy.id)).state).toBe('succeeded')
  expect((await stack.operation(unreadable.id)).error_code).toBe('superseded')
})

test('a storm of first wakes is accepted whole, changes no leader and raises no alarm', async () => {
  await using stack = await Stack.start({ hosts: 3, controlPlane: { databasePool: 3, leadershipLeaseMs: 3_000 } })
  const { leadership, usage } = stack.replica.parts
  const { epoch } = leadership.term!
  const ids = await Promise.all(Array.from({ length: 90 }, async () => (await stack.desktop()).id))
  const wakes = await Promise.all(ids.map((id) => stack.begin(id, 'wake')))
  await usage.compare()
  await usage.compare()
  for (const { id } of wakes) expect((await stack.settled(id)).state).toBe('succeeded')
  expect(leadership.term?.epoch).toBe(epoch)
  expect(stack.chronicle.lines.filter(({ alarm }) => alarm)).toEqual([])
  expect(stack.chronicle.find(/could not be stored|recovery was interrupted/)).toEqual([])
})

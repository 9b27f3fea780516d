// What the control plane must not believe: an old picture of a host, a server that is not its own, a database from before.
import { endBlockers } from '@dormouse/control-plane/leadership/store.ts'
import pg from 'pg'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

/** A hibernated desktop that must be corrected, and whose row is held, so that the comparison waits; returns how to release it. */
async function heldBack(stack: Stack, id: string): Promise<() => Promise<void>> {
  const client = new pg.Client({ connectionString: stack.database.url })
  await client.connect()
  await client.query(`update desktops set state = 'stopped' where id = $1`, [id])
  await client.query('begin')
  await client.query('select 1 from desktops where id = $1 for update', [id])
  return async () => {
    await client.query('rollback')
    await client.end()
  }
}

const waits = `select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
const somebodyWaits = (stack: Stack) =>
  waitFor('somebody to wait for the row', async () => (await stack.database.rows(waits)).length > 0)

test('a desktop that woke for the first time while a host was compared is not called stopped', async () => {
  await using stack = await Stack.start()
  const first = await stack.desktop('hibernated')
  const release = await heldBack(stack, first.id)
  const pass = stack.replica.parts.recovery.compare(stack.host.id)
  await somebodyWaits(stack)
  const second = await stack.desktop('awake')
  await release()
  await pass
  expect((await stack.see(second.id)).state).toBe('awake')
})

test('a desktop that was asleep in the picture of its host and woke since is not called hibernated', async () => {
  await using stack = await Stack.start()
  for (let i = 0; i < 2; i++) await stack.desktop('hibernated')
  const [first, second] = (await stack.inventory()).map((item) => item.desktopId)
  const release = await heldBack(stack, first!)
  const pass = stack.replica.parts.recovery.compare(stack.host.id)
  await somebodyWaits(stack)
  await stack.ask(second!, 'wake')
  await release()
  await pass
  expect((await stack.see(second!)).state).toBe('awake')
})

test('with a database restored from an older copy, the leader begins above every epoch that a host has obeyed', async () => {
  await using stack = await Stack.start({ controlPlane: { leadershipLeaseMs: 3_000 } })
  stack.chronicle.foresee(/a host reports a later epoch/)
  for (let i = 0; i < 3; i++) await stack.endTerm()
  const { id } = await stack.desktop('awake')
  await stack.replica.stop()
  await stack.database.rows('update leadership set epoch = 1')
  await stack.replica.start()
  await waitFor('a later epoch', () => (stack.replica.parts.leadership.term?.epoch ?? 0) > 4)
  await stack.linked(stack.host)
  expect(await stack.ask(id, 'hibernate')).toMatchObject({ state: 'succeeded' })
})

test('a take-over by force ends no session of another installation on the same server, and none of a leader in good standing', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await using other = await Stack.start({ hosts: 0 })
  const { pool, leadership } = stack.replica.parts
  const { signal } = other.replica.parts.leadership.term!
  expect(await endBlockers(pool)).toEqual({ ended: 0, others: [] })
  const mine = leadership.term!.signal
  await stack.database.rows(`update leadership set expires_at = '-infinity'`)
  await endBlockers(pool)
  await waitFor('our own term to end', () => mine.aborted)
  expect(signal.aborted).toBe(false)
})

// Guarantee: leadership changes hands when it must and never otherwise: what is open under the old epoch ends before the
// new one begins, what is frozen is ended, and a leader that cannot renew stops by itself.
import { backendOf, leave } from '@dormouse/control-plane/leadership/store.ts'
import pg from 'pg'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'
import type { Replica } from './parts/replica.ts'

const leaderLock = 'select pg_advisory_lock(7236810)'
const fence = 'select 1 from leadership for key share'

const leaseOf = async (stack: Stack): Promise<{ epoch: number; ends: Date }> =>
  (await stack.database.rows<{ epoch: number; ends: Date }>('select epoch, expires_at as ends from leadership'))[0]!

/** A session of the test's own, as of a replica that is frozen; that it is ended from outside is no fault. */
async function sessionOf(
  url: string,
  name = 'dormouse',
): Promise<pg.Client & AsyncDisposable & { ended: Promise<void>; pid: number }> {
  const client = new pg.Client({ connectionString: url, application_name: name })
  await client.connect()
  const ended = new Promise<void>((resolve) => client.on('error', () => resolve()))
  const { pid } = (await client.query<{ pid: number }>('select pg_backend_pid() as pid')).rows[0]!
  return Object.assign(client, { ended, pid, [Symbol.asyncDispose]: () => client.end() })
}

const waiting = `select 1 from pg_locks where locktype = 'advisory' and objid = 7236810 and not granted
  and database = (select oid from pg_database where datname = current_database())`

const isEnded = async (stack: Stack, { pid }: { pid: number }) =>
  (await stack.database.rows('select 1 from pg_stat_activity where pid = $1', [pid])).length === 0

/** A transaction that stands still is ended after a while. */
const keepBusy = (tx: { query(sql: string): Promise<unknown> }) => tx.query('select 1')

test('a lease is renewed while a transaction of the leader is open: the two locks do not conflict', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 3_000 } })
  const { leadership } = stack.replica.parts
  await leadership.transaction(async (tx) => {
    const before = await leaseOf(stack)
    await waitFor('a renewal', async () => {
      await keepBusy(tx)
      return (await leaseOf(stack)).ends > before.ends
    })
    expect((await leaseOf(stack)).epoch).toBe(before.epoch)
  })
})

test('a take-over waits for the open transactions of the old leader, and begins its epoch after their commit', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 30_000 } })
  const { leadership } = stack.replica.parts
  const { epoch } = leadership.term!
  await leadership.transaction(async (tx) => {
    await stack.database.endSessions('dormouse-leadership')
    await waitFor('a taker to find it in the way', async () => {
      await keepBusy(tx)
      return stack.chronicle.find(/transaction of the old leader/).length > 0
    })
    expect((await leaseOf(stack)).epoch).toBe(epoch)
    const { rows } = await tx.query('update leadership set expires_at = expires_at returning epoch')
    expect(rows).toEqual([{ epoch }])
  })
  await waitFor('the next term', () => leadership.term?.epoch === epoch + 1)
})

test('a lock that nobody gives back, as of a frozen leader or a pooler, is taken once the lease has run out', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600 } })
  const { epoch } = await leaseOf(stack)
  await stack.replica.stop()
  await using frozen = await sessionOf(stack.database.url)
  await frozen.query(leaderLock)
  await stack.replica.start()
  await stack.replica.leading()
  await frozen.ended
  expect((await leaseOf(stack)).epoch).toBeGreaterThan(epoch)
})

test('a transaction that a frozen leader left open is ended once the lease has run out, and what it wrote is gone', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600 } })
  const { epoch } = await leaseOf(stack)
  await using frozen = await sessionOf(stack.database.url)
  await frozen.query(`begin; ${fence}; insert into organisations (id, name) values (gen_random_uuid(), 'never')`)
  await stack.replica.stop()
  await stack.replica.start()
  await stack.replica.leading()
  await waitFor('its end', () => isEnded(stack, frozen))
  expect((await leaseOf(stack)).epoch).toBeGreaterThan(epoch)
  expect(await stack.database.rows(`select 1 from organisations where name = 'never'`)).toEqual([])
})

test('a session of another program that holds the lead is told to the operator and not ended; a replica leads when it has ended', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600 } })
  const { epoch } = await leaseOf(stack)
  await stack.replica.stop()
  await using other = await sessionOf(stack.database.url, 'psql')
  await other.query(`${leaderLock}; begin; ${fence}`)
  await stack.replica.start()
  const told = await waitFor('it to be told', () => stack.chronicle.find(/another program holds a lock/)[0])
  expect(told).toMatchObject({ others: [{ pid: other.pid, application: 'psql' }] })
  expect(await isEnded(stack, other)).toBe(false)
  await other.query('commit; select pg_advisory_unlock(7236810)')
  await stack.replica.leading()
  expect((await leaseOf(stack)).epoch).toBeGreaterThan(epoch)
})

test('a replica that leaves ends its own session and no other, also where another has the pid that it had before a failover', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { pool } = stack.replica.parts
  await using gone = await sessionOf(stack.database.url, 'dormouse-leadership')
  await using later = await sessionOf(stack.database.url, 'dormouse-leadership')
  await using psql = await sessionOf(stack.database.url, 'psql')
  const backend = await backendOf(gone)
  for (const { pid } of [later, psql])
    await leave(pool, await sessionOf(stack.database.url), { pid, startedAt: backend.startedAt })
  await leave(pool, await sessionOf(stack.database.url), await backendOf(psql))
  expect([await isEnded(stack, later), await isEnded(stack, psql)]).toEqual([false, false])
  await leave(pool, gone, backend)
  expect(await isEnded(stack, gone)).toBe(true)
})

test('a term that is over ends no term after it, however late its renewal speaks', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600 } })
  const { leadership } = stack.replica.parts
  const listener = Promise.withResolvers<void>()
  const hung = new Promise<void>((resolve) =>
    stack.failpoints.set('leadership.before-renew', () => {
      stack.failpoints.set('leadership.before-renew', undefined)
      resolve()
      return listener.promise
    }),
  )
  await hung
  await stack.endTerm()
  const { epoch } = leadership.term!
  const renewedFor = async (leases: number) => {
    const begun = (await leaseOf(stack)).ends.getTime()
    await waitFor('renewals', async () => (await leaseOf(stack)).ends.getTime() > begun + leases * 600)
  }
  await renewedFor(2)
  listener.resolve()
  await renewedFor(1)
  expect(leadership.term?.epoch).toBe(epoch)
})

test('a crowd that holds every connection of the pool takes no leadership away', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600, databasePool: 2 } })
  const { leadership, pool } = stack.replica.parts
  const { epoch } = leadership.term!
  await Promise.all([1, 2].map(() => pool.query('select pg_sleep(1.5)')))
  expect(leadership.term?.epoch).toBe(epoch)
})

test('sessions end what stands still in them: 2 s idle in a transaction, 10 s in a statement', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { pool } = stack.replica.parts
  const show = async (name: string) => Object.values((await pool.query(`show ${name}`)).rows[0] as object)[0]
  expect(await show('idle_in_transaction_session_timeout')).toBe('2s')
  expect(await show('statement_timeout')).toBe('10s')
})

test('a leader that cannot renew stops by itself when its lease has run out, though nobody tells it', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 1_500 } })
  const { leadership } = stack.replica.parts
  const listener = Promise.withResolvers<void>()
  const ended = new Promise<void>((resolve) => leadership.once('ended', () => resolve()))
  stack.failpoints.set('leadership.before-renew', () => listener.promise)
  await ended
  expect(stack.chronicle.find(/no longer leading/).at(-1)).toMatchObject({ why: 'the lease expired' })
  const refused = await stack.api('POST', '/v1/desktops', { body: { tier: 'small' } })
  expect([refused.status, refused.json.code]).toEqual([503, 'not_leader'])
  stack.failpoints.set('leadership.before-renew', undefined)
  listener.resolve()
  await stack.replica.leading()
})

test('one that is told to stop gives its lease up: where the lock is held elsewhere, nobody waits for the lease to run out', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { leadershipLeaseMs: 600_000 } })
  await using pooler = await sessionOf(stack.database.url)
  const locked = pooler.query(leaderLock)
  await waitFor('the stranger to wait', async () => (await stack.database.rows(waiting)).length > 0)
  await stack.replica.stop()
  await locked
  const second = await stack.addReplica(undefined, { leadershipLeaseMs: 600 })
  await waitFor('it to lead', () => second.leads)
  await pooler.ended
  await stack.replica.start()
})

test('one that is told to stop gives leadership up first, and then lets the requests under way end', async () => {
  await using stack = await Stack.start()
  const { id } = await stack.desktop('awake')
  const second = await stack.addReplica()
  const release = stack.host.driver.faults.hang('exec')
  const running = stack.exec(id, 'echo done')
  await waitFor('the command', () => stack.host.driver.faults.counts.exec === 1)
  const stopping = stack.replica.stop()
  await waitFor('the other to lead', () => second.leads)
  release()
  expect((await running).json).toMatchObject({ exit_code: 0, stdout: 'done\n' })
  await stopping
  await stack.replica.start()
})

test('an agent that knows one address learns the others’, keeps one link to each replica, and lets go of one that left', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const second = stack.replicas[1]!
  await stack.linked(stack.host)
  const linked = () => stack.chronicle.find(/^linked$/).map(({ replicaId }) => replicaId)
  const ids = () => stack.replicas.map(({ parts }) => parts.replicaId)
  // The host is told that it is welcome a moment after the replica knows it.
  await waitFor('both welcomes', () => linked().length === 2)
  expect(linked().toSorted()).toEqual(ids().toSorted())
  await second.stop()
  await second.start()
  await waitFor('the third welcome', () => linked().length === 3)
  await stack.linked(stack.host)
  expect(linked()[2]).toBe(ids()[1])
})

test('/readyz says whether the sessions of the other replicas are this one’s to end', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const mayTakeOver = async (replica: Replica) =>
    (await send(`${replica.url}/readyz`, 'GET', {})).json.may_take_over as boolean
  expect(await mayTakeOver(stack.replica)).toBe(true)
  const role = `other_${process.pid}`
  const url = new URL(stack.database.url)
  Object.assign(url, { username: role, password: 'its-own' })
  await stack.database.rows(`create role ${role} login password 'its-own'`)
  try {
    await stack.database.rows(`grant all on schema public to ${role}`)
    await stack.database.rows(`grant all on all tables in schema public to ${role}`)
    const other = await stack.addReplica(undefined, { databaseUrl: url.href })
    expect(await mayTakeOver(other)).toBe(false)
    await stack.database.rows(`grant pg_signal_backend to ${role}`)
    // From memory, which a look in the background keeps.
    await waitFor('the grant to be seen', () => mayTakeOver(other))
    await other.stop()
  } finally {
    await stack.database.rows(`drop owned by ${role}; drop role ${role}`)
  }
})

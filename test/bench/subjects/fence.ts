// What the fence of leadership costs a transaction: 16 writers, each on a row of its own, with and without the `for key
// share` that all of them take on one row, in turn.
import { randomUUID } from 'node:crypto'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { openPool, type Pool } from '@dormouse/control-plane/db/pool.ts'
import { type TransactionOptions, transaction } from '@dormouse/control-plane/db/transactions.ts'
import { fenceStatement } from '@dormouse/control-plane/leadership/store.ts'
import { createLog } from '@dormouse/process'
import { databaseNamed, query } from '../../setup/postgres.ts'
import { load } from '../load.ts'
import { alternate, rowOf, type Subject } from '../subject.ts'

const writers = 16
const renewMs = 750
const name = 'bench_fence'

export const fence: Subject = {
  name: 'fence',
  what: 'transactions that take the fence of leadership, beside the same ones without it; 16 writers',
  hosts: 'simulated',
  seconds: { fixed: 2, perRound: 4 },
  run: async ({ postgres, rounds, secondsEach }) => {
    await query(postgres.url, `create database ${name}`)
    const databaseUrl = databaseNamed(postgres.url, name)
    await migrate({ databaseUrl, log: createLog({ name: 'fence', level: 'warn' }) })
    const pool = openPool(databaseUrl, writers + 2, () => undefined)
    try {
      const statement = fenceStatement(1, await prepare(pool))
      const failed = (error: unknown): never => {
        throw error
      }
      const measure = (options: TransactionOptions) => async () => ({ rate: await rateOf(pool, options, secondsEach) })
      const taken = await alternate(rounds, { floor: measure({}), ours: measure({ fence: { statement, failed } }) })
      const row = { subject: 'fence', name: 'fenced transactions, 16 at once', unit: 'per second' } as const
      return [rowOf(taken, { ...row, better: 'more', of: 'rate', floor: 'without the fence', ratioKind: 'share' })]
    } finally {
      await pool.end()
      await query(postgres.url, `drop database ${name} with (force)`)
    }
  },
}

/** Makes this process the leader for good, in epoch 1; the id of its replica. */
async function prepare(pool: Pool): Promise<string> {
  const replica = randomUUID()
  await pool.query(`update leadership set epoch = 1, replica_id = $1, expires_at = 'infinity'`, [replica])
  await pool.query('create table written (writer int primary key, n bigint not null)')
  await pool.query('insert into written select i, 0 from generate_series(0, $1) i', [writers])
  return replica
}

/** Transactions per second of all writers together, while the lease is renewed as often as in real life. */
async function rateOf(pool: Pool, options: TransactionOptions, seconds: number): Promise<number> {
  const renewing = setInterval(
    () => void pool.query(`update leadership set expires_at = 'infinity' where epoch = 1`),
    renewMs,
  )
  const { rate } = await load(writers, seconds, (writer) =>
    transaction(
      pool,
      (tx) => tx.query({ name: 'write', text: 'update written set n = n + 1 where writer = $1', values: [writer] }),
      options,
    ),
  )
  clearInterval(renewing)
  return rate
}

// The floor of a mutation: plain transactions over bare `pg`, each writer on rows of its own, on the Postgres that the
// service uses. Two statements are a new operation and its desktop's state; five are those of a create.
import { randomUUID } from 'node:crypto'
import pg from 'pg'
import { databaseNamed, query } from '../../setup/postgres.ts'
import { cpuMs, postgresCpuMs } from '../cpu.ts'
import { load } from '../load.ts'
import type { Measured } from '../subject.ts'

const name = 'bench_floor'
const writers = 64

const schema = `
  create table leader (epoch bigint primary key);
  create table desktops (id int primary key, state text not null, turn bigint not null, updated_at timestamptz not null);
  create table operations (id uuid primary key, desktop_id int not null, kind text not null, state text not null,
    input jsonb not null, created_at timestamptz not null default clock_timestamp());
  create table history (id uuid primary key, desktop_id int not null, what text not null);
  insert into leader values (1);
  insert into desktops select i, 'created', 0, now() from generate_series(0, ${writers - 1}) i`

type Statement = (writer: number) => pg.QueryConfig

const insertOperation: Statement = (writer) => ({
  name: 'operation',
  text: `insert into operations (id, desktop_id, kind, state, input) values ($1, $2, 'wake', 'pending', '{}')`,
  values: [randomUUID(), writer],
})
const updateDesktop: Statement = (writer) => ({
  name: 'desktop',
  text: 'update desktops set state = $2, turn = turn + 1, updated_at = now() where id = $1',
  values: [writer, 'waking'],
})

const statements: Record<'two' | 'five', Statement[]> = {
  two: [insertOperation, updateDesktop],
  five: [
    () => ({ name: 'fence', text: 'select epoch from leader where epoch = $1 for key share', values: [1] }),
    (writer) => ({ name: 'lock', text: 'select state from desktops where id = $1 for update', values: [writer] }),
    insertOperation,
    updateDesktop,
    (writer) => ({
      name: 'history',
      text: 'insert into history values ($1, $2, $3)',
      values: [randomUUID(), writer, 'wake'],
    }),
  ],
}

export interface TransactionFloor {
  /** Transactions per second, milliseconds and CPU of one. */
  measure(kind: 'two' | 'five', writers: number, seconds: number): Promise<Measured>
  stop(): Promise<void>
}

export async function startTransactions(postgres: { url: string; dataDir: string }): Promise<TransactionFloor> {
  await query(postgres.url, `create database ${name}`)
  const url = databaseNamed(postgres.url, name)
  const pool = new pg.Pool({ connectionString: url, max: writers, application_name: name })
  pool.on('error', () => undefined)
  await pool.query(schema)
  return {
    measure: async (kind, writing, seconds) => {
      // Each writer keeps its connection: a floor does not wait for a pool.
      const clients = await Promise.all(Array.from({ length: writing }, () => pool.connect()))
      const before = { node: cpuMs(process.pid), postgres: postgresCpuMs(postgres.dataDir) }
      const { rate, p50, p99, count } = await load(writing, seconds, async (writer) => {
        const client = clients[writer]!
        await client.query('begin')
        for (const statement of statements[kind]) await client.query(statement(writer))
        await client.query('commit')
      })
      for (const client of clients) client.release()
      return {
        rate,
        p50,
        p99,
        'cpu client': ((cpuMs(process.pid) - before.node) / count) * 1_000,
        'cpu Postgres': ((postgresCpuMs(postgres.dataDir) - before.postgres) / count) * 1_000,
      }
    },
    stop: async () => {
      await pool.end()
      await query(postgres.url, `drop database ${name} with (force)`)
    },
  }
}

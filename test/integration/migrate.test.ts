// Guarantee: a migration may take long, lets the service go first, and continues from where an earlier one ended; nobody who
// has nothing to migrate waits for it. On a large table: `npm run test:scale`.
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { createLog } from '@dormouse/process'
import pg from 'pg'
import { afterAll, beforeAll, beforeEach, expect, inject, onTestFinished, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { Chronicle } from './parts/chronicle.ts'
import { Database } from './parts/database.ts'

let stack: Stack
let folder: string
let chronicle: Chronicle

beforeAll(async () => {
  stack = await Stack.start({ replicas: 2, hosts: 0 })
})
afterAll(() => stack[Symbol.asyncDispose]())
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'dormouse-migrations-'))
  chronicle = new Chronicle()
  return () => rmSync(folder, { recursive: true })
})

const write = (name: string, sql: string) => writeFileSync(join(folder, name), sql)

function bringUpToDate(databaseUrl = stack.database.url): Promise<string[]> {
  const log = createLog({ name: 'migrate', level: 'debug', destination: chronicle })
  return migrate({ databaseUrl, log, folder: pathToFileURL(`${folder}/`) })
}

const isApplied = async (name: string) =>
  (await stack.database.rows('select 1 from migrations where name = $1', [name])).length === 1

const isValid = async (index: string) =>
  (
    await stack.database.rows<{ valid: boolean }>(
      'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
      [index],
    )
  )[0]?.valid

/** A session of the test's own. */
async function session(name = 'stranger'): Promise<pg.Client & AsyncDisposable> {
  const client = new pg.Client({ connectionString: stack.database.url, application_name: name })
  client.on('error', () => undefined)
  await client.connect()
  return Object.assign(client, { [Symbol.asyncDispose]: () => client.end() })
}

test('no timeout of a statement ends a migration, also where the URL of the database sets some', async () => {
  write('9001-slow.sql', 'select pg_sleep(0.6); create table slow_done ()')
  const timeouts = 'statement_timeout=300&query_timeout=300&idle_in_transaction_session_timeout=300'
  expect(await bringUpToDate(`${stack.database.url}?${timeouts}`)).toEqual(['9001-slow.sql'])
  expect(await stack.database.rows(`select to_regclass('slow_done') as made`)).toEqual([{ made: 'slow_done' }])
})

test('a migration that does not get its lock gives way to those behind it, says for whom it waits, and is tried again', async () => {
  write('9002-column.sql', 'alter table desktops add column waited integer')
  await using holder = await session('a long reader')
  await holder.query('begin; lock table desktops in access share mode')
  const migrating = bringUpToDate()
  const waits = /timed out waiting for the lock/
  // On a busy machine a try may be over before it was seen for whom it waits.
  const line = await waitFor('it to give way', () =>
    chronicle.find(waits).find(({ waitedFor }) => (waitedFor as unknown[]).length > 0),
  )
  expect(line).toMatchObject({ migration: '9002-column.sql', waitedFor: [{ application: 'a long reader' }] })
  expect((await stack.api('GET', '/v1/desktops')).status).toBe(200)
  await holder.query('commit')
  expect(await migrating).toEqual(['9002-column.sql'])
})

test('an index is built outside a transaction, while another replica goes on waiting for the lead', async () => {
  write('9003-index.sql', '-- outside a transaction\ncreate index concurrently desktops_9003 on desktops (tier)')
  const standbys = () =>
    stack.database.rows<{ pid: number }>(`select pid from pg_stat_activity where datname = current_database()
      and application_name = 'dormouse-leadership' and wait_event = 'advisory'`)
  const before = await waitFor('the second replica to wait', async () => {
    const found = await standbys()
    return found.length === 1 && found
  })
  expect(await bringUpToDate()).toEqual(['9003-index.sql'])
  expect(await isValid('desktops_9003')).toBe(true)
  expect(await waitFor('it to wait on', async () => (await standbys())[0])).toEqual(before[0])
})

test('an index whose build was interrupted is built anew, and one that is whole is not built twice', async () => {
  await stack.database.rows('create table twins (n integer)')
  await stack.database.rows('insert into twins values (1), (1)')
  write('9005-index.sql', '-- outside a transaction\ncreate unique index concurrently twins_once on twins (n)')
  await expect(bringUpToDate()).rejects.toThrow('9005-index.sql failed')
  expect([await isValid('twins_once'), await isApplied('9005-index.sql')]).toEqual([false, false])
  await stack.database.rows('delete from twins where ctid in (select ctid from twins limit 1)')
  expect(await bringUpToDate()).toEqual(['9005-index.sql'])
  expect(await isValid('twins_once')).toBe(true)
  const builtAs = await stack.database.rows(`select 'twins_once'::regclass::oid as oid`)
  await stack.database.rows(`delete from migrations where name = '9005-index.sql'`)
  expect(await bringUpToDate()).toEqual(['9005-index.sql'])
  expect(await stack.database.rows(`select 'twins_once'::regclass::oid as oid`)).toEqual(builtAs)
})

test('what is interrupted between two migrations, or in one, goes on from there at the next start', async () => {
  write('9006-first.sql', 'create table first_part ()')
  write('9007-second.sql', 'create table second_part (); select no_such_function()')
  write('9008-third.sql', 'create table third_part ()')
  await expect(bringUpToDate()).rejects.toThrow('9007-second.sql failed')
  expect(await isApplied('9006-first.sql')).toBe(true)
  expect(await stack.database.rows(`select to_regclass('second_part') as made`)).toEqual([{ made: null }])
  write('9007-second.sql', 'create table second_part ()')
  expect(await bringUpToDate()).toEqual(['9007-second.sql', '9008-third.sql'])
})

test('a migrator whose session is lost says which migration failed; a server that loses its client ends the statement', async () => {
  write('9009-ghost.sql', '-- outside a transaction\nselect pg_sleep(3600)')
  const killed = bringUpToDate().catch((error: Error) => error.message)
  const sleepers = () =>
    stack.database.rows<{ pid: number; interval: string }>(`select pid from pg_stat_activity
      where datname = current_database() and query like '%pg_sleep(3600)%' and state = 'active' and pid <> pg_backend_pid()`)
  const [ghost] = await waitFor('the statement', async () => {
    const found = await sleepers()
    return found.length > 0 && found
  })
  await stack.database.rows('select pg_terminate_backend($1)', [ghost!.pid])
  expect(await killed).toContain('9009-ghost.sql failed')
  write('9009-ghost.sql', `create table ghost as select current_setting('client_connection_check_interval') as every`)
  expect(await bringUpToDate()).toEqual(['9009-ghost.sql'])
  expect(await stack.database.rows('select every from ghost')).toEqual([{ every: '2s' }])
})

test('of two that start at once, one migrates and the other finds it done', async () => {
  write('9010-once.sql', 'select pg_sleep(0.3); create table once_only ()')
  const both = await Promise.all([bringUpToDate(), bringUpToDate()])
  expect(both.flat()).toEqual(['9010-once.sql'])
})

test('a replica with nothing to migrate starts while a newer one migrates', async () => {
  write('9011-long.sql', '-- outside a transaction\nselect pg_advisory_lock(42)')
  await using holder = await session()
  await holder.query('select pg_advisory_lock(42)')
  const migrating = bringUpToDate()
  await waitFor('the long one to run', async () => {
    const found = await stack.database.rows(
      `select 1 from pg_locks where locktype = 'advisory' and objid = 42 and not granted`,
    )
    return found.length === 1
  })
  await stack.replicas[1]!.stop()
  await stack.replicas[1]!.start()
  await holder.query('select pg_advisory_unlock(42)')
  expect(await migrating).toEqual(['9011-long.sql'])
})

test('a database of a development build is refused in one sentence, and stays as it is', async () => {
  const other = await Database.empty(inject('databaseUrl'))
  onTestFinished(async () => void (await other.drop()))
  await other.rows('create table migrations (name text primary key, applied_at timestamptz not null default now())')
  await other.rows(`insert into migrations (name) values ('0001-ground.sql')`)
  await expect(bringUpToDate(other.url)).rejects.toThrow('by a development build before 0.1.0')
  const tables = await other.rows(`select tablename as name from pg_tables where schemaname = 'public'`)
  expect(tables).toEqual([{ name: 'migrations' }])
})

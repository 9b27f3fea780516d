// Brings the schema up to date while the service runs: one migration at a time, on a session without a statement timeout.
// Only one process migrates at a time. An interrupted migration continues at the next start.
import { setTimeout as sleep } from 'node:timers/promises'
import { type Log, StartError } from '@dormouse/process'
import type pg from 'pg'
import { watchMigration } from './migration-watch.ts'
import { type Migration, migrationsFolder, readMigrations } from './migrations.ts'
import { requireVersion } from './opening.ts'
import { openSession, sqlState } from './pool.ts'

export interface MigrateOptions {
  databaseUrl: string
  log: Log
  folder?: URL
}

/** The advisory lock that the migrating session holds: any number that nothing else in the database uses. */
const migratorLock = 7_236_812
/** The schema of version 0.1.0. A database with migrations but without this one was made by an earlier build. */
const baseline = '0001-base.sql'
const lockPollMs = 100
/** How long a migration may wait for a lock on a table: every later query of that table waits behind it. */
const lockTimeoutMs = 1_000
/** A concurrent index build blocks no query. It waits for each transaction that began before it, such as a dump. */
const outsideLockTimeoutMs = 3_600_000
const retryMs = { least: 250, most: 10_000 }

/**
 * Applies the missing migrations; returns their names. An applied file is never changed: a new file follows it. If none is
 * missing, it takes no lock, so that a replica can start while a newer one migrates.
 */
export async function migrate({ databaseUrl, log, folder = migrationsFolder }: MigrateOptions): Promise<string[]> {
  const migrations = readMigrations(folder)
  const session = await openSession(databaseUrl, 'migration')
  try {
    await requireVersion(session)
    await configure(session, lockTimeoutMs, log)
    if ((await missing(session, migrations)).length === 0) return []
    await becomeMigrator(session, log)
    const applied: string[] = []
    for (const migration of await missing(session, migrations)) {
      await apply({ session, migration, databaseUrl, log })
      applied.push(migration.name)
    }
    return applied
  } finally {
    await session.end()
  }
}

/** Resets what the role or the last migration has set: no timeout applies but the one for locks. */
async function configure(session: pg.Client, lockMs: number, log: Log): Promise<void> {
  await session.query(
    `select set_config(wish.name, wish.value, false)
     from (values ('statement_timeout', '0'), ('transaction_timeout', '0'), ('idle_in_transaction_session_timeout', '0'),
            ('lock_timeout', $1)) wish (name, value)
     join pg_settings known on known.name = wish.name`,
    [String(lockMs)],
  )
  // The statement of a killed migrator must not keep running. Not every system supports this setting.
  await session
    .query(`set client_connection_check_interval = '2s'`)
    .catch((error) => log.debug({ err: error }, 'the server does not support client_connection_check_interval'))
}

async function missing(session: pg.Client, migrations: Migration[]): Promise<Migration[]> {
  const { rows } = await session.query<{ there: boolean }>(`select to_regclass('migrations') is not null as there`)
  if (!rows[0]!.there) return migrations
  const done = await session.query<{ name: string }>('select name from migrations')
  const names = new Set(done.rows.map(({ name }) => name))
  if (names.size > 0 && !names.has(baseline))
    throw new StartError(
      'the database was made by a development build before 0.1.0, and was not changed; name an empty database in DATABASE_URL, or run the build that made this one',
    )
  return migrations.filter(({ name }) => !names.has(name))
}

/** Polls for the lock: a waiting statement holds a snapshot, and a concurrent index build waits for snapshots. */
async function becomeMigrator(session: pg.Client, log: Log): Promise<void> {
  for (let attempt = 0; ; attempt++) {
    const { rows } = await session.query<{ mine: boolean }>('select pg_try_advisory_lock($1) as mine', [migratorLock])
    if (rows[0]!.mine) break
    if (attempt % 100 === 0)
      log.info({ migrator: 'another' }, 'waiting for another control plane that is migrating the database')
    await sleep(lockPollMs)
  }
  await session.query(
    'create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())',
  )
}

interface Work {
  session: pg.Client
  migration: Migration
  databaseUrl: string
  log: Log
}

/**
 * Retries until the migration is applied. Between attempts, sessions that hold a lock and those that wait behind it get their
 * turn.
 */
async function apply(work: Work): Promise<void> {
  const { session, migration, log } = work
  const { name, outside } = migration
  log.info({ migration: name }, 'applying a migration')
  await using watch = watchMigration(work)
  for (let attempt = 0; ; attempt++) {
    try {
      await configure(session, outside ? outsideLockTimeoutMs : lockTimeoutMs, log)
      return await (outside ? applyOutside(session, migration) : applyInside(session, migration))
    } catch (error) {
      if (!isTransient(error)) throw new Error(`migration ${name} failed`, { cause: error })
      const waitedFor = watch.waitedFor()
      log.warn({ migration: name, waitedFor }, 'timed out waiting for the lock of a migration; retrying')
      await sleep(Math.min(retryMs.most, retryMs.least * 2 ** attempt) * (0.5 + Math.random() / 2))
    }
  }
}

/** No lock in time, or a deadlock. */
const isTransient = (error: unknown): boolean => ['55P03', '40P01'].includes(sqlState(error) ?? '')

async function applyInside(session: pg.Client, { name, sql, servesFrom }: Migration): Promise<void> {
  await session.query('begin')
  try {
    await session.query(sql)
    await raiseServesFrom(session, servesFrom)
    await record(session, name)
    await session.query('commit')
  } catch (error) {
    await session.query('rollback').catch(() => undefined)
    throw error
  }
}

/** An earlier migrator may have ended in the middle of an index build, or between the build and its record. */
async function applyOutside(session: pg.Client, { name, sql, servesFrom, index }: Migration): Promise<void> {
  await raiseServesFrom(session, servesFrom)
  const state = index === undefined ? 'missing' : await indexState(session, index)
  if (state === 'half-built') await session.query(`drop index concurrently ${index}`)
  if (state !== 'whole') await session.query(sql)
  await record(session, name)
}

async function indexState(session: pg.Client, index: string): Promise<'missing' | 'half-built' | 'whole'> {
  const { rows } = await session.query<{ valid: boolean }>(
    'select indisvalid as valid from pg_index where indexrelid = to_regclass($1)',
    [index],
  )
  if (rows.length === 0) return 'missing'
  return rows[0]!.valid ? 'whole' : 'half-built'
}

/** A leader of an older release ends here: its open transactions end first, and it begins no other (`leadership/store.ts`). */
const raiseServesFrom = (session: pg.Client, release: number[]) =>
  session.query(
    `with older as (select 1 from leadership where serves_from < $1 for update)
     update leadership set serves_from = $1 where exists (select 1 from older)`,
    [release],
  )

const record = (session: pg.Client, name: string) => session.query('insert into migrations (name) values ($1)', [name])

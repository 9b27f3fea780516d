// Watches a running migration by its session: logs its progress and the sessions that it waits for.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import { openSession, pidOf } from './pool.ts'

export interface WatchOptions {
  session: pg.Client
  migration: { name: string }
  databaseUrl: string
  log: Log
}

/** A session that the migration waits for. */
interface Blocker {
  pid: number
  application: string
  /** How long its transaction has been open. */
  openSecs: number
}

export interface MigrationWatch extends AsyncDisposable {
  /** The sessions that it waited for at the last look. */
  waitedFor(): Blocker[]
}

const lookMs = 500
const sayMs = 5_000

/** Watches until it is disposed of. An error of the watch never fails the migration. */
export function watchMigration(options: WatchOptions): MigrationWatch {
  const ending = new AbortController()
  let blockers: Blocker[] = []
  const watching = look(options, ending.signal, (seen) => {
    blockers = seen
  }).catch((error) => options.log.debug({ err: error }, 'the progress of a migration could not be read'))
  return {
    waitedFor: () => blockers,
    [Symbol.asyncDispose]: async () => {
      ending.abort()
      await watching
    },
  }
}

async function look(options: WatchOptions, signal: AbortSignal, seen: (blockers: Blocker[]) => void): Promise<void> {
  const began = performance.now()
  const pause = () => sleep(lookMs, undefined, { signal }).catch(() => undefined)
  await pause()
  if (signal.aborted) return
  const own = await openSession(options.databaseUrl, 'migration')
  try {
    for (let said = began; !signal.aborted; await pause()) {
      const waitsFor = await blockersOf(own, options.session)
      if (waitsFor.length > 0) seen(waitsFor)
      if (performance.now() - said < sayMs) continue
      said = performance.now()
      const secs = Math.round((said - began) / 1_000)
      const facts = { migration: options.migration.name, secs, waitsFor, ...(await progressOf(own, options.session)) }
      options.log.info(facts, 'a migration is running')
    }
  } finally {
    await own.end()
  }
}

async function blockersOf(own: pg.Client, session: pg.Client): Promise<Blocker[]> {
  const { rows } = await own.query<Blocker>(
    `select pid, application_name as application,
       coalesce(extract(epoch from clock_timestamp() - xact_start), 0)::float8 as "openSecs"
     from pg_stat_activity where pid = any(pg_blocking_pids($1))`,
    [pidOf(session)],
  )
  return rows
}

/** The progress of an index build. */
async function progressOf(own: pg.Client, session: pg.Client): Promise<object | undefined> {
  const { rows } = await own.query<object>(
    `select phase, blocks_done as "blocksDone", blocks_total as "blocksTotal"
     from pg_stat_progress_create_index where pid = $1`,
    [pidOf(session)],
  )
  return rows[0]
}

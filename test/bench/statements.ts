// Counts the statements that Postgres runs, by its extension pg_stat_statements.
import type pg from 'pg'
import type { Postgres } from '../../scripts/testbed/postgres.ts'
import { query } from '../setup/postgres.ts'

/** Loads the extension into a server that nothing uses yet: it restarts. */
export async function countStatements(postgres: Postgres): Promise<void> {
  await query(postgres.url, `alter system set shared_preload_libraries = 'pg_stat_statements'`)
  await postgres.restart()
  await query(postgres.url, 'create extension pg_stat_statements')
}

/** How many statements the sessions of this database have run so far; `begin` and `commit` count, too. */
export async function statementsOf(database: pg.Pool): Promise<number> {
  await database.query('create extension if not exists pg_stat_statements')
  const { rows } = await database.query<{ calls: string }>(
    `select sum(calls) as calls from pg_stat_statements
      where dbid = (select oid from pg_database where datname = current_database())`,
  )
  return Number(rows[0]!.calls)
}

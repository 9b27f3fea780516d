// Brings the schema up to date: plain SQL files in order, each in its own transaction, one migrator at a time.
import { readdirSync, readFileSync } from 'node:fs'
import { type Pool, transaction } from './pool.ts'

const folder = new URL('./migrations/', import.meta.url)
/** Any fixed number that nothing else in the database uses as an advisory lock. */
const lock = 7_236_811

/** Applies what is missing. A file once applied is never changed: its successor is a new file. */
export async function migrate(pool: Pool): Promise<string[]> {
  const applied: string[] = []
  await transaction(pool, async (tx) => {
    await tx.query('select pg_advisory_xact_lock($1)', [lock])
    await tx.query(
      'create table if not exists migrations (name text primary key, applied_at timestamptz not null default now())',
    )
    const { rows } = await tx.query<{ name: string }>('select name from migrations')
    const done = new Set(rows.map((row) => row.name))
    for (const name of readdirSync(folder)
      .filter((file) => file.endsWith('.sql'))
      .sort()) {
      if (done.has(name)) continue
      await tx.query(readFileSync(new URL(name, folder), 'utf8'))
      await tx.query('insert into migrations (name) values ($1)', [name])
      applied.push(name)
    }
  })
  return applied
}

// One real Postgres for the run, with a migrated template that each stack copies.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { openPool } from '@dormouse/control-plane/db/pool.ts'
import { createLog } from '@dormouse/process'
import type { TestProject } from 'vitest/node'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { startPostgres } from '../../scripts/testbed/postgres.ts'
import { identify } from '../../scripts/testbed/processes.ts'
import { Secrets } from '../secrets.ts'
import { fastFolder } from './fast-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
  }
}

export const templateName = 'dormouse_template'

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  // A million rows stay on the disk.
  const folder = mkdtempSync(join(project.name === 'integration' ? fastFolder() : tmpdir(), 'dormouse-test-'))
  const postgres = await startPostgres({
    dataDir: join(folder, 'pg'),
    runtimeDir: folder,
    say: () => undefined,
    durable: false,
    endsWithUs: true,
  })
  const unbind = endWithUs(identify(postgres.pid)!, 'SIGINT', folder)
  const secrets = new Secrets()
  secrets.learn('the database’s password', new URL(postgres.url).password)
  await makeTemplate(postgres.url)
  project.provide('databaseUrl', postgres.url)
  return async () => {
    await postgres.stop()
    unbind()
    const told = secrets.inLogFiles(folder)
    if (told.length > 0) throw new Error(`Postgres’ log was kept, for it is not clean: ${told.join('; ')}`)
    rmSync(folder, { recursive: true, force: true })
  }
}

/** The migrated database that each stack copies. */
export async function makeTemplate(url: string): Promise<void> {
  await query(url, `create database ${templateName}`)
  await migrate({ databaseUrl: databaseNamed(url, templateName), log: createLog({ name: 'testbed', level: 'warn' }) })
}

/** The same server, another database. */
export function databaseNamed(url: string, name: string): string {
  const named = new URL(url)
  named.pathname = `/${name}`
  return named.href
}

/** One statement in a connection of its own. */
export async function query(url: string, text: string): Promise<void> {
  const pool = openPool(url, 1, () => undefined)
  try {
    await pool.query(text)
  } finally {
    await pool.end()
  }
}

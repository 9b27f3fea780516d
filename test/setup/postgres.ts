// The ground under the tests: one real Postgres for the run, and a migrated template that each house copies.
import { existsSync, mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { openPool } from '@dormouse/control-plane/db/pool.ts'
import { createLog } from '@dormouse/process'
import type { TestProject } from 'vitest/node'
import { endWithUs } from '../../scripts/ground/end-with-us.ts'
import { startPostgres } from '../../scripts/ground/postgres.ts'
import { identify } from '../../scripts/ground/processes.ts'
import { Secrets } from '../secrets.ts'

declare module 'vitest' {
  interface ProvidedContext {
    databaseUrl: string
  }
}

export const templateName = 'dormouse_template'

export default async function ground(project: TestProject): Promise<() => Promise<void>> {
  const folder = mkdtempSync(join(placeFor(project.name), 'dormouse-test-'))
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

const inMemory = '/dev/shm'
const enoughBytes = 4 * 1024 ** 3

/**
 * Memory for the many small databases of the houses, where the machine has enough. A house copies some 300 files and
 * removes them, which takes half of the processor time of its start on a disk. A million rows stay on the disk.
 */
function placeFor(project: string): string {
  if (project !== 'house' || !existsSync(inMemory)) return tmpdir()
  const { bavail, bsize } = statfsSync(inMemory)
  return bavail * bsize >= enoughBytes ? inMemory : tmpdir()
}

/** The migrated database that each house copies. */
export async function makeTemplate(url: string): Promise<void> {
  await query(url, `create database ${templateName}`)
  await migrate({ databaseUrl: databaseNamed(url, templateName), log: createLog({ name: 'ground', level: 'warn' }) })
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

// A Postgres of one test's own, with the migrated template on it, to be stopped, killed and frozen. Knows no table.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../../scripts/testbed/postgres.ts'
import { processesIn, signal } from '../../../scripts/testbed/processes.ts'
import { makeTemplate } from '../../setup/postgres.ts'

export type OwnPostgres = Awaited<ReturnType<typeof ownPostgres>>

export async function ownPostgres() {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-postgres-'))
  const postgres = await startPostgres({
    dataDir: join(folder, 'pg'),
    runtimeDir: folder,
    say: () => undefined,
    durable: true,
    endsWithUs: true,
    thenRemove: folder,
  })
  await makeTemplate(postgres.url)
  return {
    postgres,
    dataDir: join(folder, 'pg'),
    /** Every process of it stands still, or goes on. */
    still: (how: 'SIGSTOP' | 'SIGCONT') => {
      for (const each of processesIn(join(folder, 'pg'))) signal(each, how)
    },
    [Symbol.asyncDispose]: async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

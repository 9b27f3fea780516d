// A Postgres of one test's own, with the migrated template on it, to be stopped, killed and frozen. Knows no table.
import { chownSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../../scripts/testbed/postgres.ts'
import { processesIn, signal } from '../../../scripts/testbed/processes.ts'
import type { Identity } from '../../real/parts/authority.ts'
import { makeTemplate, query } from '../../setup/postgres.ts'

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
  const dataDir = join(folder, 'pg')
  return {
    postgres,
    dataDir,
    /** With this certificate. It accepts plain connections, too: that a client uses none is the client's to see to. */
    offerTls: async ({ certificate, key }: Identity) => {
      const { uid, gid } = statSync(dataDir)
      for (const [name, text] of Object.entries({ 'server.crt': certificate, 'server.key': key })) {
        writeFileSync(join(dataDir, name), text, { mode: 0o600 })
        chownSync(join(dataDir, name), uid, gid)
      }
      await query(postgres.url, `alter system set ssl = 'on'`)
      await postgres.restart()
    },
    /** Every process of it stands still, or goes on. */
    still: (how: 'SIGSTOP' | 'SIGCONT') => {
      for (const each of processesIn(dataDir)) signal(each, how)
    },
    [Symbol.asyncDispose]: async () => {
      await postgres.stop()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

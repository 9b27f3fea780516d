// The distribution's Postgres, with the programs of its packages: the one from npm has no pg_dump.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chownSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { identify, run } from '../../../scripts/testbed/processes.ts'
import { freePort } from '../../free-port.ts'
import { query } from '../../setup/postgres.ts'
import { waitFor } from '../../wait-for.ts'

const versions = '/usr/lib/postgresql'

export interface PackagedPostgres extends AsyncDisposable {
  url: string
  /** Holds psql, pg_dump and pg_restore. */
  programs: string
}

export async function packagedPostgres(): Promise<PackagedPostgres> {
  const newest = readdirSync(versions)
    .sort((a, b) => Number(a) - Number(b))
    .at(-1)!
  const programs = join(versions, newest, 'bin')
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-packaged-'))
  const dataDir = join(folder, 'data')
  mkdirSync(dataDir, { mode: 0o700 })
  const user = Number(readFileSync('/etc/passwd', 'utf8').match(/^postgres:x:(\d+):/m)?.[1])
  for (const each of [folder, dataDir]) chownSync(each, user, statSync(folder).gid)
  const as = (program: string, ...args: string[]) => [
    '--reuid',
    'postgres',
    '--clear-groups',
    join(programs, program),
    ...args,
  ]
  await run('setpriv', as('initdb', '--no-sync', '--auth=trust', '--username=postgres', '--encoding=UTF8', dataDir), {
    cwd: '/',
  })
  const port = await freePort()
  const settings = { port, listen_addresses: '127.0.0.1', unix_socket_directories: '', fsync: 'off' }
  const words = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  const server = spawn('setpriv', as('postgres', '-D', dataDir, ...words), { stdio: 'ignore', cwd: '/' })
  endWithUs(identify(server.pid!)!, 'SIGQUIT', folder)
  const url = `postgres://postgres:unused@127.0.0.1:${port}/postgres`
  const answers = () =>
    query(url, 'select 1').then(
      () => true,
      () => false,
    )
  await waitFor('the packaged Postgres', answers)
  return {
    url,
    programs,
    [Symbol.asyncDispose]: async () => {
      const exited = once(server, 'exit')
      server.kill('SIGQUIT')
      await exited
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

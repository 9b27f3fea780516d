// A private Postgres from npm's binaries: creates, starts, stops and kills it. Knows none of its data.
//
// It has a session of its own, so that a Ctrl-C for the starter's process group does not reach it.

import { spawn } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { closeSync, existsSync, mkdirSync, openSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { endWithUs } from './end-with-us.ts'
import { findLauncher, type Launcher } from './postgres-launcher.ts'
import { alive, type Identity, identify, processesIn, type Say, signal, waitFor, waitGone } from './processes.ts'

export type PostgresOptions = {
  /** Holds the database; created if missing. Its parent folders may be accessible to root only. */
  dataDir: string
  /** Holds the log, `postgres.log`, and the program, in `postgres`. */
  runtimeDir: string
  /** A free one by default. */
  port?: number
  say: Say
  /** False: a crash of the machine may lose the database. For tests. */
  durable: boolean
  /** It ends when this process does, in whatever way. For tests. */
  endsWithUs?: boolean
  /** This folder is removed after that. */
  thenRemove?: string
}

/** A running Postgres. `url` stays the same over restarts. */
export type Postgres = {
  url: string
  logFile: string
  readonly pid: number
  /** Shuts it down; kills it after 10 s. Idempotent. */
  stop(): Promise<void>
  /** Stops it if it runs, and starts it on the same port. */
  restart(): Promise<void>
  /** Kills all of its processes at once, like a power cut. */
  kill(): Promise<void>
}

const user = 'dormouse'
const passwordFile = 'dormouse.password'
const stopTimeoutMs = 10_000
const readyTimeoutMs = 30_000

/** Starts Postgres on a data folder, and creates the database if there is none. Ends what a killed run left there first. */
export async function startPostgres(options: PostgresOptions): Promise<Postgres> {
  const { dataDir, runtimeDir, port, say, durable } = options
  mkdirSync(runtimeDir, { recursive: true })
  mkdirSync(dirname(dataDir), { recursive: true })
  const launcher = await findLauncher(join(runtimeDir, 'postgres'))
  if (!existsSync(join(dataDir, 'PG_VERSION'))) await initialise(launcher, dataDir, durable, say)
  const listening = port ?? (await freePort())
  const password = readFileSync(join(dataDir, passwordFile), 'utf8').trim()
  const logFile = join(runtimeDir, 'postgres.log')
  const launch = async () => {
    await clearLeftovers(dataDir, say)
    return launchServer(launcher, options, serverSettings(listening, durable), logFile)
  }
  let server = await launch()

  const kill = () => killAll(dataDir)
  const stop = async () => {
    signal(server, 'SIGINT')
    if (!(await waitGone([server], stopTimeoutMs))) await kill()
  }
  const restart = async () => {
    await stop()
    server = await launch()
  }
  const url = `postgres://${user}:${password}@127.0.0.1:${listening}/${user}`
  return {
    url,
    logFile,
    stop,
    restart,
    kill,
    get pid() {
      return server.pid
    },
  }
}

/** The server's settings; everything else is Postgres's default. */
export function serverSettings(port: number, durable: boolean): string[] {
  const notDurable = {
    fsync: 'off',
    synchronous_commit: 'off',
    full_page_writes: 'off',
    wal_level: 'minimal',
    max_wal_senders: 0,
  }
  const settings = {
    listen_addresses: '127.0.0.1',
    port,
    unix_socket_directories: '',
    max_connections: 200,
    jit: 'off',
    ...(durable ? {} : notDurable),
  }
  return Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
}

/** Creates the database beside its folder and renames it when it is whole: a partial one is never started. */
async function initialise(launcher: Launcher, dataDir: string, durable: boolean, say: Say): Promise<void> {
  say('Creating the database')
  const making = `${dataDir}.making`
  rmSync(making, { recursive: true, force: true })
  mkdirSync(making, { mode: 0o700 })
  await launcher.run(making, initialiseScript(durable), `${randomBytes(24).toString('base64url')}\n`)
  renameSync(making, dataDir)
}

/** Reads the password from stdin: it never appears on a command line. */
function initialiseScript(durable: boolean): string {
  return `set -eu
umask 077
read -r password
echo "$password" | "$PG_BIN/initdb" --pgdata="$PG_DATA" --username=${user} --pwfile=/dev/stdin --auth=scram-sha-256 \\
  --encoding=UTF8 --no-locale --locale-provider=builtin --builtin-locale=C.UTF-8 ${durable ? '' : '--no-sync'}
echo 'create database ${user}' | "$PG_BIN/postgres" --single -D "$PG_DATA" postgres
echo "$password" > "$PG_DATA/${passwordFile}"`
}

async function launchServer(
  launcher: Launcher,
  { dataDir, endsWithUs, thenRemove }: PostgresOptions,
  settings: string[],
  logFile: string,
): Promise<Identity> {
  const { command, args, env } = launcher.command(dataDir, `exec "$PG_BIN/postgres" -D "$PG_DATA" "$@"`, settings)
  const log = openSync(logFile, 'a', 0o600)
  const child = spawn(command, args, { env, detached: true, stdio: ['ignore', log, log] })
  closeSync(log)
  child.unref()
  await new Promise((resolve, reject) => child.once('spawn', resolve).once('error', reject))
  const server = identify(child.pid!)
  if (server && endsWithUs) endWithUs(server, 'SIGINT', thenRemove)
  const ready = await waitFor(() => isReady(dataDir, child.pid!) || !server || !alive(server), readyTimeoutMs)
  if (server && ready && alive(server)) return server
  child.kill('SIGKILL')
  throw new Error(
    `Postgres did not start; the last lines of ${logFile}:\n${readFileSync(logFile, 'utf8').slice(-1500)}`,
  )
}

/** The server writes to the eighth line of its pid file when it accepts connections. pg_ctl waits for the same line. */
function isReady(dataDir: string, pid: number): boolean {
  const lines = pidFile(dataDir)
  return lines?.[0] === String(pid) && lines[7]?.trim() === 'ready'
}

function pidFile(dataDir: string): string[] | undefined {
  const file = join(dataDir, 'postmaster.pid')
  return existsSync(file) ? readFileSync(file, 'utf8').split('\n') : undefined
}

/**
 * Ends what a killed run left running on this data folder, then removes its pid file. With that file, Postgres could
 * mistake another process of the same pid for itself and refuse to start.
 */
async function clearLeftovers(dataDir: string, say: Say): Promise<void> {
  if (!existsSync('/proc/self/stat')) return // without /proc, Postgres must judge its pid file itself
  const left = processesIn(dataDir)
  const postmaster = left.find(({ pid }) => String(pid) === pidFile(dataDir)?.[0])
  if (left.length > 0) say('Stopping the Postgres of an earlier run')
  if (postmaster) signal(postmaster, 'SIGINT')
  if (!(await waitGone(left, stopTimeoutMs))) await killAll(dataDir)
  rmSync(join(dataDir, 'postmaster.pid'), { force: true })
}

async function killAll(dataDir: string): Promise<void> {
  for (let left = processesIn(dataDir); left.length > 0; left = processesIn(dataDir)) {
    for (const each of left) signal(each, 'SIGKILL')
    await waitGone(left, stopTimeoutMs)
  }
}

function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() =>
        address && typeof address === 'object' ? resolve(address.port) : reject(new Error('no free port')),
      )
    })
  })
}

// Processes of the machine: run a program, identify a process later, wait until it has ended. Knows no Postgres or libvirt.
// A pid alone identifies nothing, since pids are reused. A pid with its start time does.

import { type ExecFileException, execFile } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

/** One line to the person who watches. */
export type Say = (line: string) => void

/** Distinguishes a process from a later one with the same pid. */
export type Identity = { pid: number; started: string }

const execute = promisify(execFile)
const killSignal = 'SIGKILL'

export type RunOptions = {
  env?: Record<string, string | undefined>
  cwd?: string
  input?: string
  /** Receives stderr as it is written, for programs that report their progress there. */
  onStderr?: (text: string) => void
}

export type Ended = { code: number | string; stdout: string; stderr: string }

/** More output than this ends the program: it would fill our memory. */
const maxOutputBytes = 64 * 1024 * 1024

/** Runs a program and returns its stdout. Throws with its stderr when it fails. */
export async function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await finish(command, args, options)
  if (code === 0) return stdout
  throw new Error(`${command} ${args[0] ?? ''} failed (${code}): ${(stderr.trim() || stdout.trim()).slice(-2000)}`)
}

/** Runs a program and returns its exit code, or the signal that ended it. Throws only when it cannot be started. */
export async function finish(command: string, args: readonly string[], options: RunOptions = {}): Promise<Ended> {
  const { input, onStderr, ...rest } = options
  const running = execute(command, args, { env: withSystemPrograms(), ...rest, maxBuffer: maxOutputBytes, killSignal })
  if (onStderr) running.child.stderr?.on('data', onStderr)
  running.child.stdin?.on('error', () => {}) // a program may end before it has read its input; the exit code says how
  running.child.stdin?.end(input)
  return running.then(
    (output) => ({ code: 0, ...output }),
    (error: ExecFileException) => {
      if (error.syscall) throw error
      return { code: error.code ?? error.signal ?? 'lost', stdout: error.stdout ?? '', stderr: error.stderr ?? '' }
    },
  )
}

/** Some programs are in folders that only root has in its PATH. */
function withSystemPrograms(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin` }
}

/** The process with this pid, or undefined if none runs. A zombie has ended. */
export function identify(pid: number): Identity | undefined {
  const fields = readLive(() =>
    readFileSync(`/proc/${pid}/stat`, 'utf8')
      .replace(/^.*\) /s, '')
      .split(' '),
  )
  if (!fields || fields[0] === 'Z' || fields[0] === 'X') return undefined
  const boot = readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim()
  return { pid, started: `${boot}/${fields[19]}` }
}

/** Whether the identified process still runs. */
export function alive({ pid, started }: Identity): boolean {
  return identify(pid)?.started === started
}

/** Sends a signal to the identified process. It is no error if that has ended. */
export function signal(identity: Identity, name: NodeJS.Signals): void {
  if (alive(identity)) readLive(() => process.kill(identity.pid, name))
}

/** Every process whose working directory is this folder, under any name and in any mount namespace. */
export function processesIn(folder: string): Identity[] {
  const { dev, ino } = statSync(folder)
  return pids().flatMap((pid) => {
    const cwd = readLive(() => statSync(`/proc/${pid}/cwd`))
    return cwd?.dev === dev && cwd.ino === ino ? (identify(pid) ?? []) : []
  })
}

/** All pids that our /proc shows. */
export function pids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** Returns undefined if the process has ended meanwhile, or belongs to another user. */
export function readLive<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(code)) return undefined
    throw error
  }
}

type Maybe<T> = T | undefined | false

/** Polls until the check returns a value. Returns undefined after the timeout. */
export async function waitFor<T>(
  check: () => Maybe<T> | Promise<Maybe<T>>,
  timeoutMs: number,
  everyMs = 10,
): Promise<T | undefined> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const value = await check()
    if (value || performance.now() > end) return value || undefined
    await sleep(everyMs)
  }
}

/** Waits until all of these have ended; returns whether they have. */
export async function waitGone(identities: Identity[], timeoutMs: number): Promise<boolean> {
  return (await waitFor(() => !identities.some(alive), timeoutMs)) ?? false
}

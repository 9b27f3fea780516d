// Processes of the machine as the ground sees them: run one to its end, know one again later, wait until one is gone.
// Knows nothing of Postgres or libvirt. A pid alone proves nothing, since pids are used again; a pid with its start time does.

import { spawn } from 'node:child_process'
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/** One line to the person who watches. */
export type Say = (line: string) => void

/** A process that can be told from a later one with the same pid. */
export type Identity = { pid: number; started: string }

export type RunOptions = {
  env?: Record<string, string | undefined>
  cwd?: string
  input?: string
  timeoutMs?: number
  /** Each piece of stderr as it comes, for programs that say there how far they are. */
  heard?: (text: string) => void
}

/** Runs a program to its end and answers its stdout; throws with its stderr when it fails. */
export async function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, stdout, stderr } = await finish(command, args, options)
  if (code === 0) return stdout
  throw new Error(`${command} ${args[0] ?? ''} failed (${code}): ${(stderr.trim() || stdout.trim()).slice(-2000)}`)
}

/** Runs a program to its end, whatever its end is. */
export function finish(
  command: string,
  args: readonly string[],
  { input, timeoutMs, heard, ...options }: RunOptions = {},
) {
  const { promise, resolve, reject } = Promise.withResolvers<{
    code: number | string
    stdout: string
    stderr: string
  }>()
  const child = spawn(command, args, {
    env: withSystemPrograms(),
    ...options,
    timeout: timeoutMs,
    killSignal: 'SIGKILL',
  })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text
    heard?.(text)
  })
  child.on('error', reject)
  child.on('close', (code, signal) => resolve({ code: code ?? signal ?? 'lost', stdout, stderr }))
  child.stdin.on('error', () => {}) // a program may end without reading all of its input; its exit code tells
  child.stdin.end(input)
  return promise
}

/** Some of what we run lies in folders that only root has in its PATH. */
function withSystemPrograms(): NodeJS.ProcessEnv {
  return { ...process.env, PATH: `${process.env.PATH ?? ''}:/usr/sbin:/sbin` }
}

/** The process behind a pid, or undefined where none runs (a zombie counts as gone). */
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

/** Whether the very process that was identified still runs. */
export function alive({ pid, started }: Identity): boolean {
  return identify(pid)?.started === started
}

/** Sends a signal to the very process that was identified; a process that is gone is no error. */
export function signal(identity: Identity, name: NodeJS.Signals): void {
  if (alive(identity)) readLive(() => process.kill(identity.pid, name))
}

/** Every process whose working directory is this very folder, under whatever name and in whatever mount namespace. */
export function processesIn(folder: string): Identity[] {
  const { dev, ino } = statSync(folder)
  return pids().flatMap((pid) => {
    const cwd = readLive(() => statSync(`/proc/${pid}/cwd`))
    return cwd?.dev === dev && cwd.ino === ino ? (identify(pid) ?? []) : []
  })
}

/** All pids of the machine, as far as our /proc shows them. */
export function pids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

/** What is read of a process that may go away meanwhile, or be another user's: then undefined. */
export function readLive<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code ?? ''
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(code)) return undefined
    throw error
  }
}

/** Waits until the check answers a value, looking every 10 ms; answers undefined when the time is over. */
export async function waitFor<T>(check: () => T | undefined | false, timeoutMs: number): Promise<T | undefined> {
  const end = performance.now() + timeoutMs
  for (;;) {
    const value = check()
    if (value || performance.now() > end) return value || undefined
    await sleep(10)
  }
}

/** Waits until all of these are gone; says whether they are. */
export async function waitGone(identities: Identity[], timeoutMs: number): Promise<boolean> {
  return (await waitFor(() => !identities.some(alive), timeoutMs)) ?? false
}

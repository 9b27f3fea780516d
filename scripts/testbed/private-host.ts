// A private host: namespaces with their own mounts, network, processes and host name, and an init that reaps at once.
// Knows no libvirt. It survives a killed starter; the next one finds it by the record that it left.
//
// Only /run and the paths that the caller names differ inside: every other path is the same file inside and outside.

import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync, readFileSync, readlinkSync, rmSync, writeFileSync } from 'node:fs'
import type { Readable } from 'node:stream'
import { endWithUs } from './end-with-us.ts'
import { coverRun, quote, unshareCommand } from './namespaces.ts'
import { alive, type Identity, identify, pids, readLive, run, signal, waitGone } from './processes.ts'

export type PrivateHostOptions = {
  name: string
  /** Names below /run, each with the folder to mount there. */
  run: Record<string, string>
  /** Paths of the machine, each with the folder or file that is mounted over it. */
  over: Record<string, string>
  /** The file that identifies the running host. */
  record: string
  logFile: string
  /** Everything in it ends when this process does, in whatever way. */
  endsWithUs?: boolean | undefined
  /** It has the machine's network instead of one of its own. */
  sharesNetwork?: boolean
}

export type PrivateHost = {
  /** Its first process, with its pid outside. */
  init: Identity
  /** It was still running from an earlier run. */
  adopted: boolean
  /** Runs a program inside. */
  exec(command: string, ...args: string[]): Promise<string>
  /** The process that has this pid inside, with its pid outside. */
  find(pidInside: number): Identity | undefined
  /** Kills everything inside at once, like a power loss. */
  powerOff(): Promise<void>
}

/** Boots a private host, or takes over the one of this record that still runs. */
export async function openPrivateHost(options: PrivateHostOptions): Promise<PrivateHost> {
  const left = leftHost(options.record)
  const init = left ?? (await boot(options))
  return {
    init,
    adopted: left !== undefined,
    exec: (command, ...args) => run(...enter(init, command, args)),
    find: (pidInside) => findInside(init, pidInside),
    powerOff: async () => {
      await kill(init)
      rmSync(options.record, { force: true })
    },
  }
}

/** The init of this record's host, if it still runs. */
export function leftHost(record: string): Identity | undefined {
  if (!existsSync(record)) return undefined
  const [pid, started] = readFileSync(record, 'utf8').trim().split(' ')
  const identity = { pid: Number(pid), started: started ?? '' }
  return alive(identity) ? identity : undefined
}

/** Ends the host of this record, with everything in it, if it still runs. */
export async function endLeftHost(record: string): Promise<void> {
  const left = leftHost(record)
  if (left) await kill(left)
}

async function boot(options: PrivateHostOptions): Promise<Identity> {
  const [command, ...args] = unshareCommand() ?? noNamespaces()
  const log = openSync(options.logFile, 'a', 0o600)
  const network = options.sharesNetwork ? [] : ['-n']
  const child = spawn(command!, [...args, '-m', ...network, '-p', '-u', '-f', '/bin/sh', '-c', initScript(options)], {
    detached: true,
    stdio: ['ignore', 'pipe', log],
    env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    cwd: '/',
  })
  closeSync(log)
  child.unref()
  const pid = await firstLine(child.stdout!)
  const init = identify(Number(pid))
  if (!init)
    throw new Error(`the private host did not start: ${readFileSync(options.logFile, 'utf8').trim().slice(-800)}`)
  if (options.endsWithUs) endWithUs(init, 'SIGKILL')
  writeFileSync(options.record, `${init.pid} ${init.started}\n`)
  return init
}

/** Prints its pid outside: it reads it before the new /proc covers the old one. */
function initScript({ name, run, over, sharesNetwork }: PrivateHostOptions): string {
  return `set -eu
read -r pid rest < /proc/self/stat
${coverRun(run)}
mount -t proc proc /proc
mount -t sysfs sys /sys || echo "no sysfs of its own, so no guest networks" >&2
hostname ${quote(name)}
${sharesNetwork ? '' : 'busybox ip link set lo up'}
${Object.entries(over).map(mountOver).join('\n')}
trap 'exit 0' TERM
echo "$pid"
exec > /dev/null 2>&1
sleep infinity &
while :; do wait; done`
}

/** Creates a folder that the machine lacks. A file that the machine lacks, such as one below /run, is left out. */
function mountOver([path, source]: [string, string]): string {
  const [from, to] = [quote(source), quote(path)]
  return `if [ -d ${from} ]; then mkdir -p ${to}; fi; if [ -e ${to} ]; then mount --bind ${from} ${to}; fi`
}

/** Leaving the loop closes our end of the pipe. */
async function firstLine(stream: Readable): Promise<string | undefined> {
  let text = ''
  for await (const chunk of stream) {
    text += chunk
    if (text.includes('\n')) break
  }
  return text.split('\n')[0]
}

function noNamespaces(): never {
  throw new Error(
    'root cannot create namespaces here (a container without CAP_SYS_ADMIN?), so no private libvirtd can run;\n' +
      'use simulated hosts instead: npm start -- --simulated 3',
  )
}

/** What to put before a command, so that it runs in the network of that process and sees every file of ours. */
export function insideNetwork(pid: number): string[] {
  return ['busybox', 'nsenter', '-t', String(pid), '-n', '--']
}

function enter(
  { pid }: Identity,
  command: string,
  args: string[],
): [string, string[], { env: NodeJS.ProcessEnv; cwd: string }] {
  const into = ['nsenter', '-t', String(pid), '-m', '-n', '-p', '-u', '--', command, ...args]
  return ['busybox', into, { env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' }, cwd: '/' }]
}

function findInside(init: Identity, pidInside: number): Identity | undefined {
  const space = pidSpace(init.pid)
  const pid = pids().find((each) => innermostPid(each) === pidInside && pidSpace(each) === space)
  return pid ? identify(pid) : undefined
}

function pidSpace(pid: number): string | undefined {
  return readLive(() => readlinkSync(`/proc/${pid}/ns/pid`))
}

function innermostPid(pid: number): number {
  const status = readLive(() => readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number(/^NSpid:.*\s(\d+)$/m.exec(status ?? '')?.[1])
}

/** When the init of a pid namespace dies, the kernel kills the rest before that death can be seen. */
async function kill(init: Identity): Promise<void> {
  const launcher = launcherOf(init)
  signal(init, 'SIGKILL')
  if (!(await waitGone(launcher ? [init, launcher] : [init], 10_000)))
    throw new Error(`the private host (pid ${init.pid}) still runs 10 s after SIGKILL`)
}

/** The `unshare` that waits for the host's init, and ends after it. */
function launcherOf({ pid }: Identity): Identity | undefined {
  const status = readLive(() => readFileSync(`/proc/${pid}/status`, 'utf8'))
  const parent = Number(/^PPid:\s(\d+)$/m.exec(status ?? '')?.[1])
  const command = readLive(() => readFileSync(`/proc/${parent}/cmdline`, 'utf8')) ?? ''
  return /(^|[/\0])unshare\0/.test(command) ? identify(parent) : undefined
}

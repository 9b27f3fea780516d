// A libvirtd in a private host, for machines if none runs. Knows no desktops.
//
// All its files are in one folder, which has the same short name inside and outside. So the agent, which runs outside, and
// QEMU, which runs inside, use the same path for the same file.

import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { endWithUs } from './end-with-us.ts'
import { openPrivateHost, type PrivateHost } from './private-host.ts'
import { type Identity, readLive, type Say, signal, waitGone } from './processes.ts'
import { dropShortName, giveShortName } from './short-name.ts'
import { requireQemu } from './system-libvirtd.ts'

export type PrivateLibvirtdOptions = {
  /** Holds everything that QEMU reaches by a short path; libvirt's own files are in `libvirt/`. */
  dir: string
  /** The host's name inside. */
  name: string
  hostUuid: string
  say: Say
  /** What libvirtd detected about QEMU. Hosts of one machine may share it; in `dir` by default. */
  cacheDir?: string
  /** QEMU runs as a user of its own, as on a host of the distribution's; otherwise as root. For tests. */
  ownUser?: boolean | undefined
  /** It ends with everything in it when this process does, in whatever way. For tests. */
  endsWithUs?: boolean | undefined
}

export type PrivateLibvirtd = {
  socketPath: string
  /** The short name of `dir`, the same folder inside and outside. */
  shortDir: string
  /** Its init: when that dies, everything in it dies. */
  pid: number
  /** An earlier run left it running, with its awake desktops. */
  adopted: boolean
  /** Runs a program inside and returns its stdout. */
  exec(command: string, ...args: string[]): Promise<string>
  /** Whether the daemon runs now. */
  daemonRuns(): boolean
  /** Ends only the daemon; QEMU keeps running. */
  killDaemon(name?: NodeJS.Signals): Promise<void>
  /** Starts the daemon, after ending it if it runs. */
  restartDaemon(): Promise<void>
  /** Kills daemon and guests at once, like a power loss. The folder keeps what was on disk. */
  powerOff(): Promise<void>
  /** Ends the daemon, then everything else. Only the folder stays. */
  stop(): Promise<void>
}

/** The distribution's definitions of libvirt's network filters. */
const filters = '/usr/share/libvirt/nwfilter'
const startTimeoutMs = 60_000
const stopTimeoutMs = 10_000

/** By short name: cancels the removal of what a host leaves when this process is killed. */
const guards = new Map<string, () => void>()

function unguard(shortDir: string): void {
  guards.get(shortDir)?.()
  guards.delete(shortDir)
}

/** Starts a private libvirtd on a folder, or takes over the one that a killed run left there. */
export async function startPrivateLibvirtd(options: PrivateLibvirtdOptions): Promise<PrivateLibvirtd> {
  const shortDir = giveShortName(options.dir)
  const home = join(shortDir, 'libvirt')
  prepareFolder(home, options)
  const host = await openPrivateHost({
    name: options.name,
    run: { [shortDir.replace('/run/', '')]: options.dir },
    over: mounts(home, options.cacheDir),
    record: join(home, 'host'),
    logFile: join(home, 'log/host.log'),
    endsWithUs: options.endsWithUs,
  })
  unguard(shortDir)
  if (options.endsWithUs) guards.set(shortDir, endWithUs(host.init, 'SIGKILL', shortDir))
  if (host.adopted) options.say('Taking over the private libvirt of an earlier run')
  const daemon = () => findDaemon(host)
  const killDaemon = (name: NodeJS.Signals = 'SIGKILL') => end(daemon(), name)
  const restartDaemon = async () => {
    await killDaemon('SIGTERM')
    await startDaemon(host, home)
  }
  if (!daemon()) await restartDaemon()
  const stop = async () => {
    await killDaemon('SIGTERM')
    await host.powerOff()
    unguard(shortDir)
    dropShortName(shortDir)
  }
  const { exec, powerOff, adopted } = host
  return {
    socketPath: socketIn(home),
    shortDir,
    pid: host.init.pid,
    adopted,
    exec,
    daemonRuns: () => daemon() !== undefined,
    killDaemon,
    restartDaemon,
    powerOff,
    stop,
  }
}

/** The daemon listens before its drivers are loaded, so it counts as started once it serves QEMU. */
async function startDaemon(host: PrivateHost, home: string): Promise<void> {
  const end = performance.now() + startTimeoutMs
  await host.exec('/usr/sbin/libvirtd', '--daemon')
  for (;;) {
    try {
      return await requireQemu(socketIn(home))
    } catch (error) {
      if (findDaemon(host) && performance.now() < end) await sleep(20)
      else throw new Error(`libvirtd does not serve QEMU: ${(error as Error).message}\n${lastErrors(home)}`)
    }
  }
}

function socketIn(home: string): string {
  return join(home, 'run/libvirt-sock')
}

function lastErrors(home: string): string {
  const lines = readFileSync(join(home, 'log/libvirtd.log'), 'utf8').split('\n')
  return lines
    .filter((line) => line.includes(': error :'))
    .slice(-5)
    .join('\n')
}

/** Paths that the private host has for itself, each with the folder or file that is mounted there. */
function mounts(home: string, cacheDir = join(home, 'cache')): Record<string, string> {
  return {
    '/etc/libvirt': join(home, 'etc'),
    '/var/lib/libvirt': join(home, 'lib'),
    '/var/log/libvirt': join(home, 'log'),
    '/var/cache/libvirt': cacheDir,
    '/etc/hosts': join(home, 'hosts'),
    '/etc/passwd': join(home, 'passwd'),
    '/etc/group': join(home, 'group'),
    '/etc/resolv.conf': join(home, 'resolv.conf'),
  }
}

function prepareFolder(home: string, { dir, name, hostUuid, cacheDir, ownUser }: PrivateLibvirtdOptions): void {
  for (const folder of ['etc', 'lib', 'log', 'cache', 'run'])
    mkdirSync(join(home, folder), { recursive: true, mode: 0o700 })
  // dnsmasq drops root, and reads the guests' addresses there.
  chmodSync(join(home, 'lib'), 0o711)
  if (cacheDir) mkdirSync(cacheDir, { recursive: true, mode: 0o700 })
  writeFileSync(join(home, 'hosts'), `127.0.0.1 localhost ${name}\n`)
  const { name: user, id } = qemuUser
  writeFileSync(join(home, 'passwd'), withEntries('/etc/passwd', [`${user}:x:${id}:${id}::/:/usr/sbin/nologin`]))
  writeFileSync(join(home, 'group'), withEntries('/etc/group', [`${user}:x:${id}:`, 'kvm:x:64054:']))
  // What QEMU reaches is below.
  if (ownUser) chmodSync(dir, 0o711)
  writeFileSync(join(home, 'resolv.conf'), '') // a resolver that never responds delays a migration by a minute
  writeFileSync(
    join(home, 'etc/libvirtd.conf'),
    daemonSettings(hostUuid, join(home, 'run'), join(home, 'log/libvirtd.log')),
  )
  writeFileSync(join(home, 'etc/qemu.conf'), `${ownUser ? asOwnUser : asRoot}${bareMachine}`)
  if (existsSync(filters)) cpSync(filters, join(home, 'etc/nwfilter'), { recursive: true })
}

/** libvirtd looks up users and groups that only the distribution's daemon package creates. */
function withEntries(file: string, entries: string[]): string {
  const text = readFileSync(file, 'utf8')
  const missing = entries.filter((entry) => !new RegExp(`^${entry.split(':')[0]}:`, 'm').test(text))
  return [text.trimEnd(), ...missing, ''].join('\n')
}

/** libvirtd.conf: one socket, which only its own user can open. */
export function daemonSettings(hostUuid: string, socketDir: string, logFile: string): string {
  return `host_uuid = "${hostUuid}"
unix_sock_dir = "${socketDir}"
unix_sock_group = "root"
unix_sock_ro_perms = "0700"
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:${logFile}"
`
}

/** As the distribution's package makes it. */
export const qemuUser = { name: 'libvirt-qemu', id: 64055 }

/** qemu.conf: QEMU is root with the right to open any path. */
const asRoot = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
clear_emulator_capabilities = 0
`

/** qemu.conf: libvirt gives QEMU's user the files that a domain names, and takes them back. */
const asOwnUser = `user = "${qemuUser.name}"
group = "${qemuUser.name}"
`

/** qemu.conf for a bare machine: no cgroups, no security driver, no virtlogd. */
const bareMachine = `security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
`

/** Its pid file is in the host's own /run, so it cannot be one of an earlier host. */
function findDaemon(host: PrivateHost): Identity | undefined {
  const pidInside = readLive(() => readFileSync(`/proc/${host.init.pid}/root/run/libvirtd.pid`, 'utf8'))
  return pidInside ? host.find(Number(pidInside)) : undefined
}

async function end(daemon: Identity | undefined, name: NodeJS.Signals): Promise<void> {
  if (!daemon) return
  signal(daemon, name)
  if (await waitGone([daemon], stopTimeoutMs)) return
  signal(daemon, 'SIGKILL')
  await waitGone([daemon], stopTimeoutMs)
}

// A libvirtd of our own in a private host, for machines where none runs. Knows nothing of desktops.
//
// All it keeps lies under one folder. The folder has a short name that is equal inside and outside, so that the agent,
// who stays outside, and QEMU, who is inside, mean the same file by the same path.

import { chmodSync, cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openPrivateHost, type PrivateHost } from './private-host.ts'
import { type Identity, readLive, type Say, signal, waitGone } from './processes.ts'
import { dropShortName, giveShortName } from './short-name.ts'
import { answer } from './system-libvirtd.ts'

export type PrivateLibvirtdOptions = {
  /** Everything that QEMU shall reach by a short path lies in here; libvirt's own things in `libvirt/`. */
  dir: string
  /** The host's name inside. */
  name: string
  hostUuid: string
  say: Say
  /** What libvirtd found out about QEMU; may be shared by hosts of one machine. In `dir` by default. */
  cacheDir?: string
  /** It ends with all that is in it when this process does, however that happens. For tests. */
  endsWithUs?: boolean | undefined
}

export type PrivateLibvirtd = {
  socketPath: string
  /** The short name of `dir`, the same folder inside and outside. */
  shortDir: string
  /** Its first process; when that one dies, all in it die. */
  pid: number
  /** It was left running by an earlier run, with whatever desktops are awake in it. */
  adopted: boolean
  /** Runs a program inside to its end, answers its stdout. */
  exec(command: string, ...args: string[]): Promise<string>
  /** Whether the daemon is there now. */
  daemonRuns(): boolean
  /** Ends the daemon alone; QEMU lives on. */
  killDaemon(name?: NodeJS.Signals): Promise<void>
  /** Starts the daemon, after ending it where it runs. */
  restartDaemon(): Promise<void>
  /** Power loss: daemon and guests are gone at once. The folder keeps what was on disk. */
  powerOff(): Promise<void>
  /** Ends the daemon in order, then everything else, and leaves nothing but the folder. */
  stop(): Promise<void>
}

/** Where the distribution keeps what libvirt's network filters are made of. */
const filters = '/usr/share/libvirt/nwfilter'
const startTimeoutMs = 60_000
const stopTimeoutMs = 10_000

/** Starts a private libvirtd on a folder, or takes over the one that a killed run left there. */
export async function startPrivateLibvirtd(options: PrivateLibvirtdOptions): Promise<PrivateLibvirtd> {
  const shortDir = giveShortName(options.dir)
  const home = join(shortDir, 'libvirt')
  furnish(home, options)
  const host = await openPrivateHost({
    name: options.name,
    run: { [shortDir.replace('/run/', '')]: options.dir },
    over: rooms(home, options.cacheDir),
    record: join(home, 'host'),
    logFile: join(home, 'log/host.log'),
    endsWithUs: options.endsWithUs,
  })
  if (host.adopted) options.say(`Found the private host ${options.name} still running`)
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

/** The daemon says that it is up before it knows whether its drivers are, so it counts as up when it serves QEMU. */
async function startDaemon(host: PrivateHost, home: string): Promise<void> {
  const end = performance.now() + startTimeoutMs
  await host.exec('/usr/sbin/libvirtd', '--daemon')
  for (;;) {
    try {
      return await answer(socketIn(home))
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

/** The machine's paths that are the private host's own, each with the folder of ours that is seen there. */
function rooms(home: string, cacheDir = join(home, 'cache')): Record<string, string> {
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

function furnish(home: string, { name, hostUuid, cacheDir }: PrivateLibvirtdOptions): void {
  for (const room of ['etc', 'lib', 'log', 'cache', 'run'])
    mkdirSync(join(home, room), { recursive: true, mode: 0o700 })
  // dnsmasq gives root up, and reads there which guest has which address.
  chmodSync(join(home, 'lib'), 0o711)
  if (cacheDir) mkdirSync(cacheDir, { recursive: true, mode: 0o700 })
  writeFileSync(join(home, 'hosts'), `127.0.0.1 localhost ${name}\n`)
  writeFileSync(join(home, 'passwd'), withEntries('/etc/passwd', ['libvirt-qemu:x:64055:64055::/:/usr/sbin/nologin']))
  writeFileSync(join(home, 'group'), withEntries('/etc/group', ['libvirt-qemu:x:64055:', 'kvm:x:64054:']))
  writeFileSync(join(home, 'resolv.conf'), '') // a resolver that is asked and never answers makes migrations wait a minute
  writeFileSync(
    join(home, 'etc/libvirtd.conf'),
    daemonSettings(hostUuid, join(home, 'run'), join(home, 'log/libvirtd.log')),
  )
  writeFileSync(join(home, 'etc/qemu.conf'), qemuSettings)
  if (existsSync(filters)) cpSync(filters, join(home, 'etc/nwfilter'), { recursive: true })
}

/** libvirtd looks up names that only a package with a daemon for the machine makes, though no process runs under them here. */
function withEntries(file: string, entries: string[]): string {
  const text = readFileSync(file, 'utf8')
  const missing = entries.filter((entry) => !new RegExp(`^${entry.split(':')[0]}:`, 'm').test(text))
  return [text.trimEnd(), ...missing, ''].join('\n')
}

/** libvirtd.conf: nothing but a socket that only its own user reaches; a session's lies where it always does. */
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

/** qemu.conf for a bare machine: no cgroups, no security driver, no virtlogd. QEMU is root with the right to open any path. */
const qemuSettings = `user = "root"
group = "root"
dynamic_ownership = 0
remember_owner = 0
clear_emulator_capabilities = 0
security_driver = "none"
namespaces = []
cgroup_controllers = []
stdio_handler = "file"
`

/** Its pid file lies in the host's own /run, so that one of an earlier host is never taken for it. */
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

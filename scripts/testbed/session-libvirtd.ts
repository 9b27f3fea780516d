// A libvirtd without root: libvirt's session mode, if QEMU runs as our own user. It needs no namespaces. Its guests have
// no network, since only root can create one. Knows no desktops.
//
// It survives a killed starter; the next one finds it by the pid file in its folder.

import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { daemonSettings } from './libvirtd.ts'
import { type Identity, identify, readLive, run, type Say, signal, waitGone } from './processes.ts'
import { dropShortName, giveShortName } from './short-name.ts'
import { requireQemu } from './system-libvirtd.ts'

export const sessionUri = 'qemu:///session'

export type SessionLibvirtdOptions = {
  /** Holds everything that QEMU reaches by a short path; libvirt's own files are in `libvirt/`. */
  dir: string
  hostUuid: string
  say: Say
}

export type SessionLibvirtd = {
  socketPath: string
  /** The short name of `dir`. */
  shortDir: string
  /** Whether the daemon runs now. */
  daemonRuns(): boolean
  /** Starts the daemon, after ending it if it runs. QEMU keeps running. */
  restartDaemon(): Promise<void>
  /** Ends the daemon, then every QEMU that it left. Only the folder stays. */
  stop(): Promise<void>
}

const startTimeoutMs = 60_000
const stopTimeoutMs = 10_000

/** Starts a libvirtd on a folder, or takes over the one that a killed run left there. */
export async function startSessionLibvirtd(options: SessionLibvirtdOptions): Promise<SessionLibvirtd> {
  const shortDir = giveShortName(options.dir)
  const home = join(shortDir, 'libvirt')
  prepareFolder(home, options.hostUuid)
  // libvirt creates guests' sockets deep below this folder.
  const settings = giveShortName(join(home, 'config'))
  const daemon = () => findDaemon(home)
  const restartDaemon = async () => {
    await end(daemon())
    await startDaemon(home, settings)
  }
  if (daemon()) options.say('Taking over the libvirt of an earlier run')
  else await restartDaemon()
  const stop = async () => {
    await end(daemon())
    await Promise.all(guests(home).map(end))
    for (const name of [settings, shortDir]) dropShortName(name)
  }
  return { socketPath: socketIn(home), shortDir, daemonRuns: () => daemon() !== undefined, restartDaemon, stop }
}

/** Replace the folders in the user's home that libvirt and QEMU would use. */
const folders = {
  HOME: 'home',
  XDG_CONFIG_HOME: 'config',
  XDG_DATA_HOME: 'data',
  XDG_CACHE_HOME: 'cache',
  XDG_RUNTIME_DIR: 'run',
}

const environment = (home: string): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(folders).map(([name, folder]) => [name, join(home, folder)])),
  PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
})

const socketIn = (home: string) => join(home, 'run/libvirt/libvirt-sock')

function prepareFolder(home: string, hostUuid: string): void {
  for (const folder of [...Object.values(folders), 'config/libvirt', 'log']) {
    mkdirSync(join(home, folder), { recursive: true, mode: 0o700 })
  }
  const settings = daemonSettings(hostUuid, join(home, 'run/libvirt'), join(home, 'log/libvirtd.log'))
  writeFileSync(join(home, 'config/libvirt/libvirtd.conf'), settings)
  writeFileSync(join(home, 'config/libvirt/qemu.conf'), qemuSettings)
}

/** qemu.conf for a single user: no cgroups, no security driver, no virtlogd. */
const qemuSettings = `security_driver = "none"
cgroup_controllers = []
stdio_handler = "file"
`

/** The daemon listens before its drivers are loaded, so it counts as started once it serves QEMU. */
async function startDaemon(home: string, settings: string): Promise<void> {
  const ends = performance.now() + startTimeoutMs
  await run('/usr/sbin/libvirtd', ['--daemon'], { env: { ...environment(home), XDG_CONFIG_HOME: settings }, cwd: '/' })
  for (;;) {
    try {
      return await requireQemu(socketIn(home), sessionUri)
    } catch (error) {
      if (!findDaemon(home) || performance.now() > ends) {
        throw new Error(
          `libvirtd does not serve QEMU: ${(error as Error).message}; log: ${join(home, 'log/libvirtd.log')}`,
        )
      }
      await sleep(20)
    }
  }
}

/** The process of the pid file, if it is a libvirtd of this folder. */
function findDaemon(home: string): Identity | undefined {
  const pid = pidIn(join(home, 'run/libvirt/libvirtd.pid'))
  return pid && belongs(pid, 'libvirtd', home) ? identify(pid) : undefined
}

/** libvirt keeps a pid file for each QEMU. */
function guests(home: string): Identity[] {
  const folder = join(home, 'run/libvirt/qemu/run')
  const files = (readLive(() => readdirSync(folder)) ?? []).filter((name) => name.endsWith('.pid'))
  const pids = files.map((name) => pidIn(join(folder, name))).filter((pid) => pid && belongs(pid, 'qemu-system', home))
  return pids.flatMap((pid) => identify(pid!) ?? [])
}

const pidIn = (file: string): number | undefined => Number(readLive(() => readFileSync(file, 'utf8'))) || undefined

/** A pid file may be stale, and its pid reused by another process. */
function belongs(pid: number, program: string, home: string): boolean {
  const executable = readLive(() => readlinkSync(`/proc/${pid}/exe`)) ?? ''
  const text = readLive(
    () => readFileSync(`/proc/${pid}/environ`, 'utf8') + readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
  )
  return executable.includes(`/${program}`) && (text ?? '').includes(`${home}/`)
}

async function end(process: Identity | undefined): Promise<void> {
  if (!process) return
  signal(process, 'SIGTERM')
  if (await waitGone([process], stopTimeoutMs)) return
  signal(process, 'SIGKILL')
  await waitGone([process], stopTimeoutMs)
}

// A libvirtd of our own without root: libvirt's session mode, where QEMU runs as ourselves. Needs no namespaces. Knows
// nothing of desktops. Guests have no network here, since only root makes one.
//
// It outlives a starter that was killed; the next one finds it again by the pid file in its folder.

import { mkdirSync, readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { daemonSettings } from './libvirtd.ts'
import { type Identity, identify, readLive, run, type Say, signal, waitGone } from './processes.ts'
import { dropShortName, giveShortName } from './short-name.ts'
import { answer } from './system-libvirtd.ts'

export const sessionUri = 'qemu:///session'

export type SessionLibvirtdOptions = {
  /** Everything that QEMU shall reach by a short path lies in here; libvirt's own things in `libvirt/`. */
  dir: string
  hostUuid: string
  say: Say
}

export type SessionLibvirtd = {
  socketPath: string
  /** The short name of `dir`. */
  shortDir: string
  /** Whether the daemon is there now. */
  daemonRuns(): boolean
  /** Starts the daemon, after ending it where it runs; QEMU lives on. */
  restartDaemon(): Promise<void>
  /** Ends the daemon in order, then every QEMU that it left, and leaves nothing but the folder. */
  stop(): Promise<void>
}

const startTimeoutMs = 60_000
const stopTimeoutMs = 10_000

/** Starts a libvirtd on a folder, or takes over the one that a killed run left there. */
export async function startSessionLibvirtd(options: SessionLibvirtdOptions): Promise<SessionLibvirtd> {
  const shortDir = giveShortName(options.dir)
  const home = join(shortDir, 'libvirt')
  furnish(home, options.hostUuid)
  // libvirt puts guests' sockets deep below this one.
  const settings = giveShortName(join(home, 'config'))
  const daemon = () => findDaemon(home)
  const restartDaemon = async () => {
    await end(daemon())
    await startDaemon(home, settings)
  }
  if (daemon()) options.say('Found the libvirt of an earlier run still running')
  else await restartDaemon()
  const stop = async () => {
    await end(daemon())
    await Promise.all(guests(home).map(end))
    for (const name of [settings, shortDir]) dropShortName(name)
  }
  return { socketPath: socketIn(home), shortDir, daemonRuns: () => daemon() !== undefined, restartDaemon, stop }
}

/** The folders that libvirt and QEMU would look for in the user's home. */
const rooms = {
  HOME: 'home',
  XDG_CONFIG_HOME: 'config',
  XDG_DATA_HOME: 'data',
  XDG_CACHE_HOME: 'cache',
  XDG_RUNTIME_DIR: 'run',
}

const environment = (home: string): Record<string, string> => ({
  ...Object.fromEntries(Object.entries(rooms).map(([name, room]) => [name, join(home, room)])),
  PATH: '/usr/sbin:/usr/bin:/sbin:/bin',
})

const socketIn = (home: string) => join(home, 'run/libvirt/libvirt-sock')

function furnish(home: string, hostUuid: string): void {
  for (const room of [...Object.values(rooms), 'config/libvirt', 'log']) {
    mkdirSync(join(home, room), { recursive: true, mode: 0o700 })
  }
  const settings = daemonSettings(hostUuid, join(home, 'run/libvirt'), join(home, 'log/libvirtd.log'))
  writeFileSync(join(home, 'config/libvirt/libvirtd.conf'), settings)
  writeFileSync(join(home, 'config/libvirt/qemu.conf'), qemuSettings)
}

/** qemu.conf for one user on any machine: no cgroups, no security driver, no virtlogd. */
const qemuSettings = `security_driver = "none"
cgroup_controllers = []
stdio_handler = "file"
`

/** The daemon says that it is up before it knows whether its drivers are, so it counts as up when it serves QEMU. */
async function startDaemon(home: string, settings: string): Promise<void> {
  const ends = performance.now() + startTimeoutMs
  await run('/usr/sbin/libvirtd', ['--daemon'], { env: { ...environment(home), XDG_CONFIG_HOME: settings }, cwd: '/' })
  for (;;) {
    try {
      return await answer(socketIn(home), sessionUri)
    } catch (error) {
      if (!findDaemon(home) || performance.now() > ends) {
        throw new Error(
          `libvirtd does not serve QEMU: ${(error as Error).message}; its log: ${join(home, 'log/libvirtd.log')}`,
        )
      }
      await sleep(20)
    }
  }
}

/** The process of the pid file, where it is a libvirtd of this very folder. */
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

/** A pid file may be old, and its number another's by now. */
function belongs(pid: number, program: string, home: string): boolean {
  const executable = readLive(() => readlinkSync(`/proc/${pid}/exe`)) ?? ''
  const words = readLive(
    () => readFileSync(`/proc/${pid}/environ`, 'utf8') + readFileSync(`/proc/${pid}/cmdline`, 'utf8'),
  )
  return executable.includes(`/${program}`) && (words ?? '').includes(`${home}/`)
}

async function end(process: Identity | undefined): Promise<void> {
  if (!process) return
  signal(process, 'SIGTERM')
  if (await waitGone([process], stopTimeoutMs)) return
  signal(process, 'SIGKILL')
  await waitGone([process], stopTimeoutMs)
}

// What an operator may set on a host, each with a default that works where one can. Read once, at the door.
import { hostname } from 'node:os'
import { join } from 'node:path'
import { setting } from '@dormouse/process'
import { z } from 'zod'
import { readOpening } from './driver/libvirt/openings.ts'

const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean),
)
const yes = z.enum(['true', 'false']).transform((text) => text === 'true')

function openings(texts: string[], context: z.RefinementCtx) {
  try {
    return texts.map(readOpening)
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message })
    return z.NEVER
  }
}

const limit = (env: string, what: string) => setting(env, what, z.coerce.number().int().min(1).optional())

export const configSchema = z.object({
  controlPlanes: setting(
    'DORMOUSE_AGENT_CONTROL_PLANES',
    'base URLs of the control plane, separated by commas; one that answers is enough',
    list.pipe(z.array(z.url()).min(1)),
  ),
  enrolToken: setting(
    'DORMOUSE_AGENT_ENROL_TOKEN',
    'invitation of this host, needed once: `dormouse admin host invite` makes one',
    z.string().min(1).optional(),
    { secret: true },
  ),
  allowHttp: setting(
    'DORMOUSE_AGENT_ALLOW_HTTP',
    'true lets the agent speak plain HTTP to other machines, where only trusted ones are on the way; else https is needed',
    yes.prefault('false'),
  ),
  name: setting('DORMOUSE_AGENT_NAME', 'what operators call this host', z.string().min(1).max(100).default(hostname())),
  stateDir: setting(
    'DORMOUSE_AGENT_STATE_DIR',
    'folder of the journal and of the host’s key',
    z.string().default('/var/lib/dormouse-agent'),
  ),
  adopt: setting(
    'DORMOUSE_AGENT_ADOPT',
    'true takes over, at a start, a state folder that belongs to another machine; that one must stay off',
    yes.prefault('false'),
  ),
  memoryDir: setting(
    'DORMOUSE_AGENT_MEMORY_DIR',
    'folder of saved memories; below the state folder by default',
    z.string().optional(),
  ),
  disksDir: setting(
    'DORMOUSE_AGENT_DISKS_DIR',
    'folder of the desktops’ disks, which QEMU’s user must be able to enter; below the state folder by default',
    z.string().optional(),
  ),
  imagesDir: setting(
    'DORMOUSE_AGENT_IMAGES_DIR',
    'folder with one folder per image, which QEMU’s user must be able to enter',
    z.string().default('/var/lib/dormouse-images'),
  ),
  socketsDir: setting(
    'DORMOUSE_AGENT_SOCKETS_DIR',
    'folder of the sockets of screens and of guests’ ports, short and writable for QEMU’s user; libvirt chooses by default',
    z.string().optional(),
  ),
  driver: setting(
    'DORMOUSE_AGENT_DRIVER',
    'libvirt, or simulated: desktops that are files',
    z.enum(['libvirt', 'simulated']).default('libvirt'),
  ),
  libvirtSocket: setting(
    'DORMOUSE_AGENT_LIBVIRT_SOCKET',
    'unix socket of libvirt’s daemon',
    z.string().default('/run/libvirt/libvirt-sock'),
  ),
  libvirtUri: setting(
    'DORMOUSE_AGENT_LIBVIRT_URI',
    'qemu:///session where that daemon is not root’s; its guests have no network',
    z.enum(['qemu:///system', 'qemu:///session']).default('qemu:///system'),
  ),
  kvm: setting(
    'DORMOUSE_AGENT_KVM',
    'auto uses the processor’s virtualisation where it works; on and off insist',
    z.enum(['auto', 'on', 'off']).default('auto'),
  ),
  cpuModel: setting(
    'DORMOUSE_AGENT_CPU_MODEL',
    'CPU model of guests under KVM, the same on all hosts whose desktops may move',
    z.string().default('Nehalem'),
  ),
  network: setting(
    'DORMOUSE_AGENT_NETWORK',
    'nat gives guests outbound network, each held to its own address and apart from the others; none gives them none',
    z.enum(['nat', 'none']).default('nat'),
  ),
  networkPrefix: setting(
    'DORMOUSE_AGENT_NETWORK_PREFIX',
    'first two or three numbers of the guests’ network; by default one for four thousand desktops that is free on the host',
    z
      .string()
      .regex(/^\d{1,3}(\.\d{1,3}){1,2}$/)
      .optional(),
  ),
  networkAllow: setting(
    'DORMOUSE_AGENT_NETWORK_ALLOW',
    'what guests may reach besides the public internet, separated by commas: networks (10.20.0.0/16), addresses, ports (10.20.0.5:5432, 10.20.0.5:53/udp) and ports of this host (host:3128); nothing by default',
    list.prefault('').transform(openings),
  ),
  processors: setting(
    'DORMOUSE_AGENT_PROCESSORS',
    'processors to lend from, by default all of the host’s; the control plane’s DORMOUSE_VCPUS_PER_PROCESSOR says how often',
    z.coerce.number().positive().optional(),
  ),
  vcpus: limit('DORMOUSE_AGENT_VCPUS', 'old: use DORMOUSE_AGENT_PROCESSORS; 4 here is 1 there'),
  memoryMiB: limit('DORMOUSE_AGENT_MEMORY_MIB', 'MiB of memory to offer; by default the host’s less a fifth'),
  diskGiB: limit('DORMOUSE_AGENT_DISK_GIB', 'GiB of disk to offer; by default four times the file system’s size'),
  workAtOnce: limit('DORMOUSE_AGENT_WORK_AT_ONCE', 'boots, restores and saves at once; by default two per processor'),
  logLevel: setting(
    'DORMOUSE_AGENT_LOG_LEVEL',
    'least important line to log: trace, debug, info, warn, error or silent',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  ),
  failpoints: setting(
    'DORMOUSE_AGENT_FAILPOINTS',
    'for tests: named places at which to kill, freeze, delay or fail',
    z.string().default(''),
  ),
  simulatedImages: setting(
    'DORMOUSE_AGENT_SIMULATED_IMAGES',
    'simulated driver: images it has; * is any',
    list.prefault('mini'),
  ),
  simulatedLatencyMs: setting(
    'DORMOUSE_AGENT_SIMULATED_LATENCY_MS',
    'simulated driver: how long operations take, such as save=200,startCold=100',
    list.prefault(''),
  ),
  simulatedFail: setting(
    'DORMOUSE_AGENT_SIMULATED_FAIL',
    'simulated driver: next failures as operation:code:times, separated by commas',
    list.prefault(''),
  ),
  simulatedDiskFull: setting(
    'DORMOUSE_AGENT_SIMULATED_DISK_FULL',
    'simulated driver: nothing can be written',
    yes.prefault('false'),
  ),
  simulatedGuestsSilent: setting(
    'DORMOUSE_AGENT_SIMULATED_GUESTS_SILENT',
    'simulated driver: no guest answers',
    yes.prefault('false'),
  ),
})
export type AgentConfig = z.infer<typeof configSchema>

/** Where things lie, with the defaults that depend on the state folder. */
export function foldersOf({ stateDir, memoryDir, disksDir, imagesDir }: AgentConfig) {
  return {
    state: stateDir,
    memory: memoryDir ?? join(stateDir, 'memory'),
    disks: disksDir ?? join(stateDir, 'disks'),
    consoles: join(disksDir ?? join(stateDir, 'disks'), 'consoles'),
    images: imagesDir,
    guestKeys: join(stateDir, 'guest-keys'),
  }
}

// The agent's settings, each with a default if one works. They are read once, at the start.
import { hostname } from 'node:os'
import { dirname, isAbsolute, join } from 'node:path'
import { setting, tracingSettings } from '@dormouse/process'
import { z } from 'zod'
import { parseDestination } from './driver/libvirt/allowed-destinations.ts'

const list = z.string().transform((text) =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter(Boolean),
)
/** Programs with other working directories, such as QEMU, get it. */
const path = z.string().refine(isAbsolute, 'must be an absolute path, such as /var/lib/dormouse-agent')
const yes = z.enum(['true', 'false']).transform((text) => text === 'true')

function destinations(texts: string[], context: z.RefinementCtx) {
  try {
    return texts.map(parseDestination)
  } catch (error) {
    context.addIssue({ code: 'custom', message: (error as Error).message })
    return z.NEVER
  }
}

/** Null for `off`. */
function listenAddress(text: string, context: z.RefinementCtx): { host: string; port: number } | null {
  if (text === 'off') return null
  const [, ipv6, name, port] = /^(?:\[([\da-f:.]+)\]|([^[\]:\s]+)):(\d{1,5})$/i.exec(text) ?? []
  if (port !== undefined && Number(port) <= 65_535) return { host: (ipv6 ?? name)!, port: Number(port) }
  context.addIssue({ code: 'custom', message: 'must be off, or an address and a port, such as 127.0.0.1:9464' })
  return z.NEVER
}

/** Other hosts get it as it is, so it must be one that they can dial. */
function dialledAddress(text: string, context: z.RefinementCtx): { host: string; port: number } {
  const address = listenAddress(text, context)
  if (address && !['0.0.0.0', '::'].includes(address.host)) return address
  context.addIssue({ code: 'custom', message: 'must be an address and a port that other hosts can dial' })
  return z.NEVER
}

const limit = (env: string, what: string) => setting(env, what, z.coerce.number().int().min(1).optional())

export const configSchema = z.object({
  controlPlanes: setting(
    'DORMOUSE_AGENT_CONTROL_PLANES',
    'base URLs of the control plane, separated by commas; one that answers is enough; by default those with which the host was enrolled',
    list.pipe(z.array(z.url()).min(1)).optional(),
  ),
  enrolToken: setting(
    'DORMOUSE_AGENT_ENROL_TOKEN',
    'invitation of this host, needed once; `dormouse-agent enrol` takes it without this setting',
    z.string().min(1).optional(),
    { secret: true },
  ),
  allowHttp: setting(
    'DORMOUSE_AGENT_ALLOW_HTTP',
    'true allows plain HTTP to other machines, for networks with trusted machines only, and false requires https; by default what the host was enrolled with, and https without that',
    yes.optional(),
  ),
  name: setting('DORMOUSE_AGENT_NAME', 'the name that operators see', z.string().min(1).max(100).default(hostname())),
  stateDir: setting(
    'DORMOUSE_AGENT_STATE_DIR',
    'folder of the journal and the host’s key',
    path.default('/var/lib/dormouse-agent'),
  ),
  adopt: setting(
    'DORMOUSE_AGENT_ADOPT',
    'true takes over a state folder that belongs to another machine; that machine must stay off',
    yes.prefault('false'),
  ),
  memoryDir: setting(
    'DORMOUSE_AGENT_MEMORY_DIR',
    'folder of saved memories; the default is in the state folder',
    path.optional(),
  ),
  disksDir: setting(
    'DORMOUSE_AGENT_DISKS_DIR',
    'folder of the desktops’ disks; QEMU’s user must be able to enter it; the default is in the state folder',
    path.optional(),
  ),
  imagesDir: setting(
    'DORMOUSE_AGENT_IMAGES_DIR',
    'folder with one folder per image; QEMU’s user must be able to enter it',
    path.default('/var/lib/dormouse-images'),
  ),
  socketsDir: setting(
    'DORMOUSE_AGENT_SOCKETS_DIR',
    'folder for the sockets of screens and guest ports; its path must be short, and QEMU’s user must be able to write to it; by default libvirt chooses',
    path.optional(),
  ),
  driver: setting(
    'DORMOUSE_AGENT_DRIVER',
    'libvirt, or simulated, whose desktops are files and processes of this machine',
    z.enum(['libvirt', 'simulated']).default('libvirt'),
  ),
  libvirtSocket: setting(
    'DORMOUSE_AGENT_LIBVIRT_SOCKET',
    'Unix socket of libvirt’s daemon',
    path.default('/run/libvirt/libvirt-sock'),
  ),
  libvirtUri: setting(
    'DORMOUSE_AGENT_LIBVIRT_URI',
    'use qemu:///session if that daemon does not run as root; its guests have no network',
    z.enum(['qemu:///system', 'qemu:///session']).default('qemu:///system'),
  ),
  kvm: setting(
    'DORMOUSE_AGENT_KVM',
    'auto uses KVM if it is available; on requires it, off never uses it',
    z.enum(['auto', 'on', 'off']).default('auto'),
  ),
  cpuModel: setting(
    'DORMOUSE_AGENT_CPU_MODEL',
    'CPU model of guests under KVM; use the same on all hosts between which desktops may move',
    z.string().default('Nehalem'),
  ),
  network: setting(
    'DORMOUSE_AGENT_NETWORK',
    'nat gives guests outbound network access, each limited to its own address and isolated from other guests; none gives them no network',
    z.enum(['nat', 'none']).default('nat'),
  ),
  networkPrefix: setting(
    'DORMOUSE_AGENT_NETWORK_PREFIX',
    'first two or three numbers of the guests’ network; by default a free network for about 4,000 desktops',
    z
      .string()
      .regex(/^\d{1,3}(\.\d{1,3}){1,2}$/)
      .optional(),
  ),
  networkAllow: setting(
    'DORMOUSE_AGENT_NETWORK_ALLOW',
    'what guests may reach besides the public internet, separated by commas: networks (10.20.0.0/16), addresses, ports (10.20.0.5:5432, 10.20.0.5:53/udp) and ports of this host (host:3128); nothing by default',
    list.prefault('').transform(destinations),
  ),
  moveAddress: setting(
    'DORMOUSE_AGENT_MOVE_ADDRESS',
    'address and port, such as 10.0.0.7:7443, by which other hosts reach this one to move desktops to it; it listens there only while a move is expected. By default, desktops move to this host slowly, through the control plane',
    z.string().transform(dialledAddress).optional(),
  ),
  moveMibps: limit(
    'DORMOUSE_AGENT_MOVE_MIBPS',
    'MiB a second that moves to other hosts may use together, and as many those to this host; by default no limit',
  ),
  vaultDir: setting(
    'DORMOUSE_AGENT_VAULT_DIR',
    'folder with a file for each vault, such as main.env, that has the environment of restic: RESTIC_REPOSITORY, RESTIC_PASSWORD or RESTIC_PASSWORD_FILE, and what the repository’s server needs; DORMOUSE_SFTP_COMMAND for the ssh of an SFTP repository',
    path.default('/etc/dormouse/vaults'),
  ),
  vaultMibps: limit(
    'DORMOUSE_AGENT_VAULT_MIBPS',
    'MiB a second that a copy to or from a vault may use; by default no limit',
  ),
  processors: setting(
    'DORMOUSE_AGENT_PROCESSORS',
    'number of processors to offer; by default all of the host’s; the control plane’s DORMOUSE_VCPUS_PER_PROCESSOR sets how many vCPUs share one',
    z.coerce.number().positive().optional(),
  ),
  memoryMiB: limit('DORMOUSE_AGENT_MEMORY_MIB', 'MiB of memory to offer; by default 80 % of the host’s'),
  diskGiB: limit('DORMOUSE_AGENT_DISK_GIB', 'GiB of disk to offer; by default four times the size of the file system'),
  workAtOnce: limit(
    'DORMOUSE_AGENT_WORK_AT_ONCE',
    'how many boots, restores and saves run at once; by default two per processor',
  ),
  warmPercent: setting(
    'DORMOUSE_AGENT_WARM_PERCENT',
    'percent of the host’s memory, or of DORMOUSE_AGENT_MEMORY_MIB if that is set, for warm copies of sleeping desktops, which wake faster; copies are ended if the memory is needed; 0 keeps none',
    z.coerce.number().int().min(0).max(100).default(25),
  ),
  warmSecs: setting(
    'DORMOUSE_AGENT_WARM_SECS',
    'how long a sleeping desktop keeps its warm copy',
    z.coerce.number().int().min(1).max(31_536_000).default(3_600),
  ),
  templatesMiB: setting(
    'DORMOUSE_AGENT_TEMPLATES_MIB',
    'MiB of disk for templates: saved boots of images, with which new desktops begin in place of a boot; 0 makes none, and removes those that there are',
    z.coerce.number().int().min(0).default(8_192),
  ),
  shareTemplates: setting(
    'DORMOUSE_AGENT_SHARE_TEMPLATES',
    'whether new desktops map one file with a template’s memory in place of a copy each, which saves most of their memory: auto does where QEMU is 8.2 or later, which opens the file read-only; on also does with an older QEMU, which opens it for writing, so that a guest that escapes could change the memory of all other desktops; off never does. QEMU’s user, and AppArmor, must let it open the files of templates',
    z.enum(['auto', 'on', 'off']).default('auto'),
  ),
  idleWithoutLeaderMs: setting(
    'DORMOUSE_AGENT_IDLE_WITHOUT_LEADER_SECS',
    'hibernate idle desktops by themselves if no leader of the control plane was heard for their idle timeout and so many seconds more; by default they run on',
    z.coerce
      .number()
      .positive()
      .transform((secs) => Math.round(secs * 1_000))
      .optional(),
  ),
  activityEveryMs: setting(
    'DORMOUSE_AGENT_ACTIVITY_SECS',
    'how often the guests’ use of processor and network is compared with the next two settings, in seconds',
    z.coerce
      .number()
      .min(0.1)
      .max(60)
      .default(5)
      .transform((secs) => Math.round(secs * 1_000)),
  ),
  activeCpuPercent: setting(
    'DORMOUSE_AGENT_ACTIVE_CPU_PERCENT',
    'percent of one processor above which a guest counts as active, for desktops whose idle policy has `cpu`',
    z.coerce.number().positive().default(25),
  ),
  activeNetworkKibps: setting(
    'DORMOUSE_AGENT_ACTIVE_NETWORK_KIBPS',
    'KiB a second, received and sent, above which a guest counts as active, for desktops whose idle policy has `network`',
    z.coerce.number().positive().default(32),
  ),
  upgradeDir: setting(
    'DORMOUSE_AGENT_UPGRADE_DIR',
    'folder in which dormouse-agent-upgrade.path waits for requests to upgrade the agent; without that unit it is missing',
    path.default('/run/dormouse-agent-upgrade'),
  ),
  metricsListen: setting(
    'DORMOUSE_AGENT_METRICS_LISTEN',
    'address and port of the metrics, for Prometheus, such as 10.0.0.7:9464; off serves none. They need no credential, so choose an address that only monitoring reaches. If the address is in use, the agent logs that and runs without',
    z.string().default('127.0.0.1:9464').transform(listenAddress),
  ),
  logLevel: setting(
    'DORMOUSE_AGENT_LOG_LEVEL',
    'lowest level to log: trace, debug, info, warn, error or silent',
    z.enum(['trace', 'debug', 'info', 'warn', 'error', 'silent']).default('info'),
  ),
  ...tracingSettings('DORMOUSE_AGENT_'),
  failpoints: setting(
    'DORMOUSE_AGENT_FAILPOINTS',
    'for tests: named points at which to kill, freeze, delay or fail',
    z.string().default(''),
  ),
  simulatedImages: setting(
    'DORMOUSE_AGENT_SIMULATED_IMAGES',
    'simulated driver: the images that it has; * means any',
    list.prefault('mini'),
  ),
  simulatedLatencyMs: setting(
    'DORMOUSE_AGENT_SIMULATED_LATENCY_MS',
    'simulated driver: duration of operations in ms, such as save=200,startCold=100',
    list.prefault(''),
  ),
  simulatedFail: setting(
    'DORMOUSE_AGENT_SIMULATED_FAIL',
    'simulated driver: the next failures, as operation:code:times, separated by commas',
    list.prefault(''),
  ),
  simulatedDiskFull: setting(
    'DORMOUSE_AGENT_SIMULATED_DISK_FULL',
    'simulated driver: true simulates a full disk',
    yes.prefault('false'),
  ),
  simulatedGuestsSilent: setting(
    'DORMOUSE_AGENT_SIMULATED_GUESTS_SILENT',
    'simulated driver: true keeps all guests from answering',
    yes.prefault('false'),
  ),
})
export type AgentConfig = z.infer<typeof configSchema>

/** A socket's path has at most 107 bytes; the folders of moves have sockets two levels below. */
const maxMovesPathBytes = 107 - '/012345678901/devices'.length

/** The agent's folders, with the defaults that depend on the state folder. */
export function foldersOf({ stateDir, memoryDir, disksDir, imagesDir, socketsDir, upgradeDir }: AgentConfig) {
  const disks = disksDir ?? join(stateDir, 'disks')
  const usual = join(disks, 'moves')
  const isShort = Buffer.byteLength(usual) <= maxMovesPathBytes
  return {
    state: stateDir,
    memory: memoryDir ?? join(stateDir, 'memory'),
    disks,
    consoles: join(disks, 'consoles'),
    images: imagesDir,
    // Never in the folder of sockets: QEMU's user writes there, and could replace it.
    moves: isShort || !socketsDir ? usual : join(dirname(socketsDir), 'moves'),
    templates: join(disks, 'templates'),
    guestKeys: join(stateDir, 'guest-keys'),
    vaultCache: join(stateDir, 'vault-cache'),
    upgrades: upgradeDir,
  }
}

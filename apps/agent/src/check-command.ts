// `dormouse-agent check`: looks at all that a host needs, without changing anything.
import { accessSync, constants, statSync } from 'node:fs'
import { readFile, statfs } from 'node:fs/promises'
import { availableParallelism, totalmem } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { type Check, createLog, type Finding, failed, ok, warning } from '@dormouse/process'
import { type AgentConfig, foldersOf } from './config.ts'
import { kvmOpens } from './driver/libvirt/capabilities.ts'
import { lookAtLibvirt } from './driver/libvirt/look.ts'
import { isOlder } from './driver/libvirt/versions.ts'
import { loadIdentity } from './enrolment/identity.ts'
import { lookAtControlPlane, type Reached } from './enrolment/reach.ts'
import { requireSafe } from './enrolment/transport.ts'
import { whyUnreachable } from './enrolment/unreachable.ts'
import { ImageStore } from './images/store.ts'
import { Repository } from './vaults/repository.ts'
import { VaultError } from './vaults/restic.ts'
import { readVaults, type Vault } from './vaults/vault-files.ts'

export interface CheckOptions {
  config: AgentConfig
  /** Those of the command line; by default those that the agent would use. */
  controlPlanes: readonly string[] | undefined
  allowHttp: boolean
}

const gib = 1024 ** 3
const dayMs = 86_400_000
const certificateWarnsDays = 21
const vaultMs = 30_000
const clockWarnsMs = 2_000
const clockFailsMs = 3_600_000
const minima = { libvirt: '8', qemu: '6', memoryBytes: gib }
const ampleMemoryBytes = 4 * gib

/** In the order in which one depends on the others. */
export async function checksOf({ config, controlPlanes, allowHttp }: CheckOptions): Promise<Check[]> {
  const { stateDir } = config
  const identity = await loadIdentity(stateDir).catch(() => undefined)
  const urls = controlPlanes ?? config.controlPlanes ?? identity?.controlPlanes ?? []
  const isHttpAllowed = allowHttp || (config.allowHttp ?? identity?.allowHttp ?? false)
  const reached: Reached[] = []
  const reach = async (url: string): Promise<Finding> => {
    requireSafe([url], isHttpAllowed)
    const found = await lookAtControlPlane(url, identity).catch((error: unknown) => whyUnreachable(error))
    if ('what' in found) return failed(`${url} was not reached: ${found.what}`, found.remedy)
    reached.push(found)
    return judgedReach(url, found, identity !== undefined)
  }
  const looked = config.driver === 'libvirt' ? lookOnce(config) : undefined
  return [
    { name: 'identity', look: () => identityIn(stateDir) },
    ...(urls.length > 0 ? urls : [undefined]).map((url) => ({
      name: 'control plane',
      look: async () =>
        url ? reach(url) : warning('none is known', 'name one: `dormouse-agent check https://dormouse.example`'),
    })),
    { name: 'clock', look: async () => clock(reached.find((each) => each.clock)?.clock) },
    { name: 'memory', look: memory },
    ...(looked ? onLibvirt(config, looked) : []),
    ...foldersIn(config).map(([name, path, needs]) => ({ name, look: () => folder(path, needs) })),
    { name: 'images', look: () => images(config) },
    ...(await vaultsIn(config)),
  ]
}

async function identityIn(stateDir: string): Promise<Finding> {
  const identity = await loadIdentity(stateDir)
  if (!identity)
    return warning(
      'not enrolled',
      'run `dormouse-agent enrol <url>` with an invitation from `dormouse admin host invite`',
    )
  return ok(`host ${identity.hostId}`)
}

function judgedReach(url: string, { certificateEnds, noLink }: Reached, isEnrolled: boolean): Finding {
  if (noLink) return failed(`${url} answers, but gives no link: ${noLink.what}`, noLink.remedy)
  const ends = certificateEnds?.toISOString().slice(0, 10)
  const works = `${url}: ${ends ? `TLS until ${ends}` : 'TCP'} and WebSocket work${isEnrolled ? ', and it knows this host' : ''}`
  const days = certificateEnds && (certificateEnds.getTime() - Date.now()) / dayMs
  return days !== undefined && days < certificateWarnsDays ? warning(works, 'renew its certificate') : ok(works)
}

function clock(found: Reached['clock']): Finding | undefined {
  if (!found) return undefined
  const { offsetMs, errorMs } = found
  const secs = (ms: number) => (ms / 1_000).toFixed(1)
  const off = Math.max(0, Math.abs(offsetMs) - errorMs)
  const detail = `${offsetMs < 0 ? '-' : '+'}${secs(Math.abs(offsetMs))} s, ± ${secs(errorMs)} s, beside the control plane`
  const remedy = 'set the clock, for example with `apt-get install systemd-timesyncd`'
  if (off > clockFailsMs) return failed(detail, remedy)
  return off > clockWarnsMs ? warning(detail, remedy) : ok(detail)
}

async function memory(): Promise<Finding> {
  const detail = `${inGib(totalmem())} in all`
  if (totalmem() < minima.memoryBytes) return failed(detail, `at least ${inGib(minima.memoryBytes)} are needed`)
  return totalmem() < ampleMemoryBytes ? warning(detail, 'enough for a few desktops only') : ok(detail)
}

const inGib = (bytes: number): string => `${(bytes / gib).toFixed(1)} GiB`

type Look = Awaited<ReturnType<typeof lookAtLibvirt>>

/** Each check that needs it waits for the same look; one of them reports why there is none. */
function lookOnce({ libvirtSocket: socketPath, libvirtUri: uri }: AgentConfig): () => Promise<Look | Error> {
  let look: Promise<Look | Error> | undefined
  return () => {
    look ??= lookAtLibvirt({ socketPath, uri }, createLog({ name: 'agent', level: 'silent' })).catch((e: Error) => e)
    return look
  }
}

function onLibvirt(config: AgentConfig, look: () => Promise<Look | Error>): Check[] {
  const found = (judge: (found: Look) => Finding | undefined) => async () => {
    const looked = await look()
    return looked instanceof Error ? undefined : judge(looked)
  }
  return [
    { name: 'libvirt', look: async () => libvirt(config, await look()) },
    { name: 'QEMU', look: found(({ qemu }) => qemuOf(qemu)) },
    { name: 'KVM', look: () => kvm(config) },
    { name: 'network', look: async () => network(config, await look()) },
    { name: 'max_workers', look: () => maxWorkers(config) },
  ]
}

function libvirt({ libvirtSocket }: AgentConfig, found: Look | Error): Finding {
  if (found instanceof Error)
    return failed(
      `it does not answer at ${libvirtSocket}: ${found.message}`,
      'start it (`systemctl start libvirtd`), or set DORMOUSE_AGENT_LIBVIRT_SOCKET',
    )
  return isOlder(found.libvirt, minima.libvirt)
    ? failed(found.libvirt, `use a release of the distribution with libvirt ${minima.libvirt} or later`)
    : ok(found.libvirt)
}

function qemuOf(qemu: string | undefined): Finding {
  if (!qemu) return failed('there is none for x86_64', 'apt-get install qemu-system-x86')
  return isOlder(qemu, minima.qemu)
    ? failed(qemu, `use a release of the distribution with QEMU ${minima.qemu} or later`)
    : ok(qemu)
}

async function kvm({ kvm }: AgentConfig): Promise<Finding> {
  if (kvm === 'off') return ok('off, by DORMOUSE_AGENT_KVM')
  if (await kvmOpens()) return ok('usable')
  const remedy = 'switch virtualisation on in the firmware'
  return kvm === 'on'
    ? failed('not usable, but DORMOUSE_AGENT_KVM is on', remedy)
    : warning('not usable: guests are emulated, and slow', remedy)
}

const tools = { nft: 'nftables', dnsmasq: 'dnsmasq-base', iptables: 'iptables' }

function network({ network }: AgentConfig, look: Look | Error): Finding {
  if (network === 'none') return ok('none, by DORMOUSE_AGENT_NETWORK')
  const path = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin', '/sbin']
  const missing = Object.keys(tools).filter((tool) => !path.some((folder) => canRun(join(folder, tool))))
  if (missing.length > 0) {
    const names = missing.map((tool) => tools[tool as keyof typeof tools])
    return failed(`${missing.join(' and ')} missing: guests have no network`, `apt-get install ${names.join(' ')}`)
  }
  if (!(look instanceof Error) && !look.hasFilter)
    return failed('libvirt has no filter for guests', 'apt-get install libvirt-daemon-config-nwfilter')
  return ok(Object.keys(tools).join(', '))
}

/** Each boot, restore and save keeps one of libvirt's workers busy until it ends. */
async function maxWorkers({ workAtOnce }: AgentConfig): Promise<Finding | undefined> {
  const file = '/etc/libvirt/libvirtd.conf'
  const text = await readFile(file, 'utf8').catch(() => undefined)
  if (text === undefined) return undefined
  const set = [...text.matchAll(/^\s*max_workers\s*=\s*(\d+)/gm)].at(-1)?.[1]
  const wanted = (workAtOnce ?? 2 * availableParallelism()) + 20
  const detail = set ?? '20, by default'
  if (Number(set ?? 20) >= wanted) return ok(detail)
  return warning(detail, `set max_workers = ${wanted} in ${file}, and run \`systemctl restart libvirtd\``)
}

interface FolderNeeds {
  failsBelow: number
  warnsBelow: number
  /** QEMU's user must reach what is in it. */
  isEntered: boolean
}

function foldersIn(config: AgentConfig): [name: string, path: string, FolderNeeds][] {
  const { state, memory, disks, images } = foldersOf(config)
  const small = { failsBelow: 0.1 * gib, warnsBelow: gib, isEntered: false }
  return [
    ['state folder', state, small],
    ...(memory.startsWith(`${state}/`) ? [] : [['memory folder', memory, small] as [string, string, FolderNeeds]]),
    ['disks folder', disks, { failsBelow: 4 * gib, warnsBelow: 50 * gib, isEntered: true }],
    ['images folder', images, { failsBelow: 0, warnsBelow: 0, isEntered: true }],
  ]
}

/** What is lost at a reboot, or cannot be locked. */
const unsuited: Readonly<Record<number, string>> = { 16914836: 'tmpfs', 26985: 'NFS', 1702057286: 'FUSE' }

async function folder(path: string, { failsBelow, warnsBelow, isEntered }: FolderNeeds): Promise<Finding> {
  const there = nearest(path)
  try {
    if (there === path) accessSync(path, constants.W_OK | constants.X_OK)
  } catch {
    return failed(`${path} cannot be written`, 'let the user that the agent runs as write it')
  }
  const { bavail, bsize, type } = await statfs(there)
  const detail = `${path}${there === path ? '' : ', to be made'}, ${inGib(bavail * bsize)} free`
  const space = 'free some, or put the folder on a larger file system'
  if (bavail * bsize < failsBelow) return failed(detail, space)
  if (unsuited[type]) return warning(`${detail}, on ${unsuited[type]}`, 'use a local disk')
  const closed = isEntered ? foldersAbove(there).find((each) => (statSync(each).mode & 0o001) === 0) : undefined
  if (closed)
    return warning(
      `${detail}; other users cannot enter ${closed}`,
      `QEMU runs as one of them: let it, for example with \`chmod o+x ${closed}\``,
    )
  return bavail * bsize < warnsBelow ? warning(detail, 'enough for a few desktops only') : ok(detail)
}

const nearest = (path: string): string => {
  try {
    return statSync(path).isDirectory() ? path : nearest(dirname(path))
  } catch {
    return nearest(dirname(path))
  }
}
const foldersAbove = (path: string): string[] => (path === '/' ? ['/'] : [path, ...foldersAbove(dirname(path))])

async function images(config: AgentConfig): Promise<Finding> {
  const { disks, images } = foldersOf(config)
  const names = await new ImageStore({ given: images, fetched: join(disks, 'images') }).list()
  return names.length > 0
    ? ok(names.join(', '))
    : warning('none', `copy one into ${images}, or let hosts fetch it: \`dormouse admin image\``)
}

/** None is no fault: then desktops are not copied. */
async function vaultsIn({ vaultDir, stateDir }: AgentConfig): Promise<Check[]> {
  const { vaults, refused } = await readVaults(vaultDir)
  return [
    ...vaults.map((vault) => ({ name: `vault ${vault.name}`, look: () => lookAtVault(vault, stateDir) })),
    ...refused.map(({ name, why }) => ({
      name: `vault ${name}`,
      look: async () => failed(why, `correct the file in ${vaultDir}`),
    })),
  ]
}

async function lookAtVault(vault: Vault, stateDir: string): Promise<Finding> {
  const cacheDir = nearest(join(stateDir, 'vault-cache'))
  try {
    await new Repository({ vault, cacheDir }).look(AbortSignal.timeout(vaultMs))
    return ok('it answers, and the password is right')
  } catch (error) {
    if (!(error instanceof VaultError)) throw error
    if (error.trouble === 'missing') return warning('it has no repository yet', 'the first copy makes it')
    return failed(error.message, `see the vault’s settings in ${vault.name}.env`)
  }
}

const canRun = (file: string): boolean => {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}

// The libvirt that runs a host's desktops: the system's if it can be used, else one that this run starts. Several hosts
// have a private one each.
import { randomUUID } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { LibvirtHost } from '@dormouse/node-libvirt'
import { cableAddress, layCables } from '../testbed/cables.ts'
import { kvmWorks } from '../testbed/kvm.ts'
import { startPrivateLibvirtd } from '../testbed/libvirtd.ts'
import { isRoot } from '../testbed/namespaces.ts'
import { endLeftHost, insideNetwork, leftHost } from '../testbed/private-host.ts'
import { sessionUri, startSessionLibvirtd } from '../testbed/session-libvirtd.ts'
import { sharePorts } from '../testbed/shared-ports.ts'
import { dropShortName, giveShortName } from '../testbed/short-name.ts'
import { findSystemLibvirtd } from '../testbed/system-libvirtd.ts'
import { type HostPlace, hostPlaces, maxHosts } from './host-places.ts'
import type { Instance } from './instance.ts'
import type { Run } from './run.ts'
import { watchOver } from './watch.ts'

export interface Hypervisor {
  place: HostPlace
  socketPath: string
  kvm: boolean
  /** The host's folder under a name that libvirt and QEMU can use, too. */
  dir: string
  description: string
  /** Where screens listen. The default folder of a private libvirt cannot be reached from outside of it. */
  socketsDir?: string
  /** The driver, if it is not the system's. */
  uri?: string
  /** If there are several: the host's network, in which its agent runs. */
  network?: HostNetwork
}

export interface HostNetwork {
  /** Put before a command, it runs in this network. */
  enter: string[]
  /** Other hosts reach this one there. */
  address: string
}

const recordIn = (hostDir: string) => join(hostDir, 'libvirt/host')

/** One host: as root on the system's libvirt or a private one, otherwise on libvirt's session mode. Several: private ones. */
export async function startHypervisors(run: Run, count: number): Promise<Hypervisor[]> {
  const kvm = kvmWorks()
  const { instance } = run
  const places = hostPlaces(instance, count)
  if (count > 1) return several(run, places, kvm)
  const [place] = places as [HostPlace]
  await endUnused(run, count)
  return [await (isRoot() ? systemOrPrivate(run, place, kvm) : session(run, place, kvm))]
}

const guests = (kvm: boolean) => (kvm ? 'guests use KVM' : 'KVM is not available, so guests are emulated')

async function systemOrPrivate(run: Run, place: HostPlace, kvm: boolean): Promise<Hypervisor> {
  const { instance, onStop } = run
  const system = await findSystemLibvirtd(instance.dir)
  // A private one that an earlier run left has that run's awake desktops.
  if (system.socketPath && !leftHost(recordIn(instance.dir))) {
    const dir = giveShortName(instance.dir)
    onStop('the short name', async () => dropShortName(dir))
    return { place, kvm, socketPath: system.socketPath, dir, description: `the system's libvirt; ${guests(kvm)}` }
  }
  const { hypervisor } = await privateOne(run, place, kvm)
  run.step('a private libvirt is running')
  return hypervisor
}

async function privateOne(run: Run, place: HostPlace, kvm: boolean): Promise<{ hypervisor: Hypervisor; pid: number }> {
  mkdirSync(place.dir, { recursive: true, mode: 0o711 })
  const libvirtd = await startPrivateLibvirtd({
    dir: place.dir,
    name: place.hostName,
    hostUuid: hostUuid(place),
    say: run.say,
    // All of them detect the same QEMU.
    cacheDir: run.instance.path('libvirt/cache'),
  })
  keepRunning(run, libvirtd, place.number === 1 ? 'libvirtd' : `libvirtd ${place.number}`)
  const { socketPath, shortDir: dir, pid } = libvirtd
  const description = `a private libvirt; ${guests(kvm)}`
  return { pid, hypervisor: { place, kvm, socketPath, dir, socketsDir: `${dir}/screens`, description } }
}

/** Each in a network of its own, with a virtual cable to every other one and a forwarder to the control planes. */
async function several(run: Run, places: HostPlace[], kvm: boolean): Promise<Hypervisor[]> {
  const { options, instance, onStop, step } = run
  requireRoot(places.length)
  await requireNoneOnSystem(instance)
  await endUnused(run, places.length)
  const started = await Promise.all(places.map((place) => privateOne(run, place, kvm)))
  await layCables(started.map(({ pid }, at) => ({ pid, number: places[at]!.number })))
  const ports = Array.from({ length: options.replicas }, (_, replica) => options.port + replica)
  const hypervisors = started.map(async ({ hypervisor, pid }) => {
    const shared = await sharePorts(pid, ports)
    onStop('the shared ports', async () => shared.close())
    const network = { enter: insideNetwork(pid), address: cableAddress(hypervisor.place.number) }
    return { ...hypervisor, network }
  })
  const all = await Promise.all(hypervisors)
  step(`${places.length} private libvirts are running`)
  return all
}

function requireRoot(count: number): void {
  if (isRoot()) return
  throw new Error(
    `--hosts ${count} needs root, since each host has namespaces of its own; run it as root, or use simulated hosts: npm start -- --simulated ${count}`,
  )
}

/** A private libvirt would start a second QEMU for a desktop that a killed run left on the system's. */
async function requireNoneOnSystem({ dir }: Instance): Promise<void> {
  const { socketPath } = await findSystemLibvirtd(dir)
  if (!socketPath) return
  const shortDir = giveShortName(dir)
  const host = await LibvirtHost.open({ socketPath })
  try {
    for (const domain of await host.domains.list()) {
      if (!(await domain.xml()).includes(`${shortDir}/`)) continue
      throw new Error(
        `the system's libvirt still runs desktops of ${dir}; run npm start -- --hosts 1 and stop it with Ctrl-C, which hibernates them`,
      )
    }
  } finally {
    await host.close()
  }
}

/** An earlier run may have been killed with more hosts. Those that this run leaves out have no desktop. */
async function endUnused({ instance }: Run, count: number): Promise<void> {
  for (const { dir } of hostPlaces(instance, maxHosts).slice(count)) await endLeftHost(recordIn(dir))
}

async function session(run: Run, place: HostPlace, kvm: boolean): Promise<Hypervisor> {
  const { instance, say, step } = run
  const libvirtd = await startSessionLibvirtd({ dir: instance.dir, hostUuid: hostUuid(place), say })
  keepRunning(run, libvirtd, 'libvirtd')
  step('a libvirt of your own is running; without root, guests have no network')
  const { socketPath, shortDir: dir } = libvirtd
  const description = `your own libvirt; ${guests(kvm)}`
  return { place, kvm, socketPath, dir, socketsDir: `${dir}/screens`, uri: sessionUri, description }
}

interface Daemon {
  daemonRuns(): boolean
  restartDaemon(): Promise<void>
  stop(): Promise<void>
}

function keepRunning({ say, onStop }: Run, { daemonRuns, restartDaemon, stop }: Daemon, name: string): void {
  const unwatch = watchOver({ name, runs: daemonRuns, start: restartDaemon, say })
  onStop('libvirt', () => unwatch().then(stop))
}

/** Made once for a host. */
function hostUuid({ dir }: HostPlace): string {
  const file = join(dir, 'host-uuid')
  if (!existsSync(file)) writeFileSync(file, randomUUID())
  return readFileSync(file, 'utf8').trim()
}

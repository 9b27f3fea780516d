// The libvirt that runs the desktops: the system's where it can be used, else one that this run starts.
import { randomUUID } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { hostname } from 'node:os'
import { kvmWorks } from '../ground/kvm.ts'
import { startPrivateLibvirtd } from '../ground/libvirtd.ts'
import { isRoot } from '../ground/namespaces.ts'
import { sessionUri, startSessionLibvirtd } from '../ground/session-libvirtd.ts'
import { dropShortName, giveShortName } from '../ground/short-name.ts'
import { findSystemLibvirtd } from '../ground/system-libvirtd.ts'
import type { Instance } from './instance.ts'
import type { Run } from './run.ts'
import { watchOver } from './watch.ts'

export interface Hypervisor {
  socketPath: string
  kvm: boolean
  /** The data folder under a name that libvirt and QEMU can use, too. */
  dir: string
  description: string
  /** Where screens listen. The default folder of a private libvirt cannot be reached from outside of it. */
  socketsDir?: string
  /** The driver, where it is not the system's. */
  uri?: string
}

/** As root: the system's libvirt, or a private one in namespaces. Otherwise: libvirt's session mode. */
export function startHypervisor(run: Run): Promise<Hypervisor> {
  const kvm = kvmWorks()
  return isRoot() ? systemOrPrivate(run, kvm) : session(run, kvm)
}

const guests = (kvm: boolean) => (kvm ? 'guests use KVM' : 'KVM is not available, so guests are emulated')

async function systemOrPrivate(run: Run, kvm: boolean): Promise<Hypervisor> {
  const { instance, say, step, onStop } = run
  const system = await findSystemLibvirtd(instance.dir)
  if (system.socketPath) {
    const dir = giveShortName(instance.dir)
    onStop('the short name', async () => dropShortName(dir))
    return { kvm, socketPath: system.socketPath, dir, description: `the system's libvirt; ${guests(kvm)}` }
  }
  const libvirtd = await startPrivateLibvirtd({
    dir: instance.dir,
    name: hostname(),
    hostUuid: hostUuid(instance),
    say,
  })
  keepRunning(run, libvirtd)
  step('a private libvirt is running')
  const { socketPath, shortDir: dir } = libvirtd
  return { kvm, socketPath, dir, socketsDir: `${dir}/screens`, description: `a private libvirt; ${guests(kvm)}` }
}

async function session(run: Run, kvm: boolean): Promise<Hypervisor> {
  const { instance, say, step } = run
  const libvirtd = await startSessionLibvirtd({ dir: instance.dir, hostUuid: hostUuid(instance), say })
  keepRunning(run, libvirtd)
  step('a libvirt of your own is running; without root, guests have no network')
  const { socketPath, shortDir: dir } = libvirtd
  const description = `your own libvirt; ${guests(kvm)}`
  return { kvm, socketPath, dir, socketsDir: `${dir}/screens`, uri: sessionUri, description }
}

interface Daemon {
  daemonRuns(): boolean
  restartDaemon(): Promise<void>
  stop(): Promise<void>
}

function keepRunning({ say, onStop }: Run, { daemonRuns, restartDaemon, stop }: Daemon): void {
  const unwatch = watchOver({ name: 'libvirtd', runs: daemonRuns, start: restartDaemon, say })
  onStop('libvirt', () => unwatch().then(stop))
}

/** Made once for an instance. */
function hostUuid(instance: Instance): string {
  const file = instance.path('host-uuid')
  if (!existsSync(file)) writeFileSync(file, randomUUID())
  return readFileSync(file, 'utf8').trim()
}

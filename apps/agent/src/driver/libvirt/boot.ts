// How a desktop's domain begins: booted from its disk, or restored from its saved memory and paused.
import { type DesktopId, type DesktopSpec, refuse } from '@dormouse/contract'
import { isLibvirtError } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import type { Image } from '../../images/images.ts'
import type { Mark } from '../mark.ts'
import type { Capabilities } from './capabilities.ts'
import { offerClipboard } from './clipboard.ts'
import type { Consoles } from './consoles.ts'
import type { LibvirtDisks } from './disks.ts'
import { type DomainPlan, domainXml } from './domain-xml.ts'
import { orRefuse, refuseDamaged } from './failures.ts'
import type { Installation } from './installation.ts'
import { isUnfiltered, withLinkDown } from './network-xml.ts'
import { type HostParts, withHostParts } from './portable-xml.ts'
import type { Sockets } from './sockets.ts'

export interface BootDeps {
  installation: Installation
  disks: LibvirtDisks
  consoles: Consoles
  sockets: Sockets
  cpuModel: string
  log: Log
}

const emulatedCpu = 'qemu64'
/** libvirt's message about an image that it cannot read, or QEMU's about a memory that it cannot load. */
const imageAtFault =
  /save(d)? image|image (magic|format|header)|load of migration|migration stream|failed to read qemu header/i

/** Boots the desktop from its disk; the domain runs when this returns. */
export async function bootFromDisk(deps: BootDeps, spec: DesktopSpec, mark: Mark): Promise<void> {
  const { installation, disks } = deps
  const { desktopId } = mark
  const { kvm, network } = await installation.ready()
  const image = await disks.imageOf(desktopId)
  const nic = (await network?.nicFor(desktopId)) ?? null
  const xml = domainXml(await planOf(deps, spec, mark, image, { disk: disks.path(desktopId), nic }))
  await orRefuse(
    'the desktop could not be started',
    installation.session.host.domains.createXml(installation.cpu.shorten(xml, kvm)),
  )
  if (image.clipboard) await offerClipboard(installation.domain(desktopId), deps.log)
  await shortenAgentTimeout(deps, desktopId)
}

/** A guest of that image on this host. */
export async function planOf(
  { installation, consoles, sockets, cpuModel }: BootDeps,
  spec: DesktopSpec,
  mark: Mark,
  image: Image,
  { disk, nic }: Pick<DomainPlan, 'disk' | 'nic'>,
): Promise<DomainPlan> {
  const { desktopId } = mark
  const { capabilities, kvm } = await installation.ready()
  return {
    spec,
    mark,
    type: kvm ? 'kvm' : 'qemu',
    emulator: capabilities.emulator,
    machine: machineFor(capabilities, image),
    cpuModel: cpuModelOf(kvm, cpuModel),
    kernel: image.kernel,
    initrd: image.initrd,
    cmdline: image.cmdline,
    disk,
    console: await consoles.ready(desktopId),
    nic,
    vncSocket: await sockets.ready(desktopId, 'vnc'),
    sshSocket: await sockets.ready(desktopId, 'ssh'),
    wakeSocket: await sockets.ready(desktopId, 'wake'),
  }
}

/** The machine type that this host's QEMU has under the image's name for it. */
export const machineFor = ({ machines }: Capabilities, { machine }: Image): string => machines.get(machine) ?? machine

export const cpuModelOf = (kvm: boolean, cpuModel: string): string => (kvm ? cpuModel : emulatedCpu)

/** The domain holds the saved memory and is paused when this returns; no vCPU has run. */
export async function restoreFromFile(deps: BootDeps, path: string, mark: Mark): Promise<void> {
  const { installation, disks } = deps
  const { desktopId } = mark
  const { domains } = installation.session.host
  try {
    const xml = await onThisHost(deps, await domains.saveImageXml(path), mark)
    await domains.restore(path, { xml, paused: true })
  } catch (error) {
    if (isLibvirtError(error) && imageAtFault.test(error.message)) refuseDamaged(error.message)
    return await orRefuse('the memory could not be restored; it is kept', Promise.reject(error))
  }
  if ((await disks.imageOf(desktopId)).clipboard) await offerClipboard(installation.domain(desktopId), deps.log)
  await shortenAgentTimeout(deps, desktopId)
}

/** The XML of a guest that was saved, with what it has on this host. */
export async function onThisHost(deps: BootDeps, savedXml: string, mark: Mark): Promise<string> {
  const { installation, disks } = deps
  const { kvm, network } = await installation.ready()
  const parts = await hostPartsOf(deps, await disks.imageOf(mark.desktopId), mark)
  const saved = withHostParts(savedXml, parts, network?.name)
  if (!network && isUnfiltered(saved))
    refuse('hypervisor_failed', 'the saved desktop needs a network and this host has none; the memory is kept')
  const xml = network ? await network.attach(mark.desktopId, saved) : withLinkDown(saved)
  return installation.cpu.shorten(xml, kvm)
}

/** What a domain has of this host, made ready. */
export async function hostPartsOf(
  { installation, disks, consoles, sockets }: BootDeps,
  { kernel, initrd, cmdline }: Image,
  mark: Mark,
): Promise<HostParts> {
  const { desktopId } = mark
  const [{ capabilities }, console, vncSocket, sshSocket, wakeSocket] = await Promise.all([
    installation.ready(),
    consoles.ready(desktopId),
    sockets.ready(desktopId, 'vnc'),
    sockets.ready(desktopId, 'ssh'),
    sockets.ready(desktopId, 'wake'),
  ])
  const { emulator } = capabilities
  const own = { mark, emulator, kernel, initrd, cmdline, disk: disks.path(desktopId), console }
  return { ...own, vncSocket, sshSocket, wakeSocket }
}

/** A guest agent that does not answer then costs one second instead of five. If it fails, the desktop still works. */
export async function shortenAgentTimeout({ installation, log }: BootDeps, desktopId: DesktopId): Promise<void> {
  try {
    await installation.session.host.guestAgent(installation.domain(desktopId)).setResponseTimeout(1)
  } catch (error) {
    log.warn({ err: error, desktopId }, 'the guest agent’s response timeout could not be set')
  }
}

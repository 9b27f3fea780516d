// This host's part in moves, at libvirt: what another host must have, whether this one has it, and the files of desktops that
// sleep.
import { stat } from 'node:fs/promises'
import { type DesktopId, type MoveTraits, refuse } from '@dormouse/contract'
import { isLibvirtError } from '@dormouse/node-libvirt'
import type { ImageStore } from '../../images/store.ts'
import type { Arrival, Entering, Leaving, Moves } from '../moves.ts'
import { shortenAgentTimeout } from './boot.ts'
import { offerClipboard } from './clipboard.ts'
import { machineOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import { enter, type LiveMoveDeps, leave, portable } from './live-move.ts'
import { confinedMoves, removeMoveFolder } from './move-sockets.ts'
import { hasInterface } from './network-xml.ts'
import { cpuOf, savedCpu } from './saved-cpu.ts'
import { isOlder } from './versions.ts'

interface LibvirtMovesDeps extends LiveMoveDeps {
  images: ImageStore
}

interface GuestKind {
  emulator: string
  arch: string
  machine: string
  virtType: string
}

export class LibvirtMoves implements Moves {
  readonly #deps: LibvirtMovesDeps

  constructor(deps: LibvirtMovesDeps) {
    this.#deps = deps
  }

  async traits(desktopId: DesktopId, memoryPath: string | undefined): Promise<Omit<MoveTraits, 'memoryBytes'>> {
    const { installation, disks } = this.#deps
    const { kvm, versions } = await installation.ready()
    const { digest } = await disks.imageOf(desktopId)
    if (!digest) return refuse('image_unavailable', 'the desktop’s image has no digests, so no other host can have it')
    const seen = await this.#seen(desktopId, memoryPath)
    return {
      driver: 'libvirt',
      kvm,
      hypervisor: versions.libvirt ?? '',
      emulator: versions.qemu ?? '',
      imageDigest: digest,
      diskBytes: await this.diskBytes(desktopId),
      ...seen,
    }
  }

  /** What the guest has, awake or saved. */
  async #seen(
    desktopId: DesktopId,
    memoryPath: string | undefined,
  ): Promise<Pick<MoveTraits, 'kind' | 'machine' | 'cpu' | 'network'>> {
    const { installation } = this.#deps
    const { domains } = installation.session.host
    if (memoryPath) {
      const xml = await orRefuse('the saved memory could not be read', domains.saveImageXml(memoryPath))
      const cpu = (await savedCpu(memoryPath)) ?? cpuOf(xml) ?? null
      return { kind: 'cold', ...seenIn(xml), cpu }
    }
    const xml = await installation
      .domain(desktopId)
      .xml()
      .catch((error: unknown) => {
        if (isLibvirtError(error, 'noDomain')) return undefined
        return orRefuse('the desktop could not be read', Promise.reject(error))
      })
    if (xml === undefined) return { kind: 'cold', machine: '', cpu: null, network: false }
    return { kind: 'live', ...seenIn(xml), cpu: cpuOf(xml) ?? null }
  }

  async hasImage(imageDigest: string): Promise<boolean> {
    return (await this.#deps.images.findByDigest(imageDigest)) !== undefined
  }

  async misfit(traits: MoveTraits): Promise<string | null> {
    const { kvm, versions, network, capabilities } = await this.#deps.installation.ready()
    // Without memory it boots like any other desktop.
    if (traits.cpu === null) return null
    if (kvm !== traits.kvm) return kvm ? 'the host uses KVM, the other one does not' : 'the host has no KVM'
    if (traits.network && !network) return 'the host has no network for guests'
    if (isOlder(versions.qemu ?? '', traits.emulator))
      return `its QEMU ${versions.qemu} is older than ${traits.emulator}`
    if (isOlder(versions.libvirt ?? '', traits.hypervisor)) {
      return `its libvirt ${versions.libvirt} is older than ${traits.hypervisor}`
    }
    const { emulator } = capabilities
    const kind = { emulator, arch: 'x86_64', machine: traits.machine, virtType: kvm ? 'kvm' : 'qemu' }
    return this.#lacks(kind, traits.cpu)
  }

  /** Whether a domain of that kind can have that CPU here, as libvirt says. */
  async #lacks(kind: GuestKind, cpu: string): Promise<string | null> {
    const { host } = this.#deps.installation.session
    try {
      await host.domainCapabilities(kind)
      await host.requireCpu(cpu, kind)
      return null
    } catch (error) {
      if (isLibvirtError(error)) return `the host cannot run this guest: ${error.message}`
      return orRefuse('the host could not be compared', Promise.reject(error))
    }
  }

  leave(desktopId: DesktopId): Promise<Leaving> {
    return leave(this.#deps, desktopId)
  }

  enter(arrival: Arrival, handoff: string): Promise<Entering> {
    return enter(this.#deps, arrival, handoff)
  }

  async furnish(desktopId: DesktopId): Promise<void> {
    const { installation, disks, log } = this.#deps
    const image = await disks.imageOf(desktopId)
    if (image.clipboard) await offerClipboard(installation.domain(desktopId), log)
    await shortenAgentTimeout(this.#deps, desktopId)
  }

  async forget(desktopId: DesktopId): Promise<void> {
    await removeMoveFolder(this.#deps.movesDir, desktopId)
    await removeMoveFolder(confinedMoves, desktopId)
  }

  diskPath(desktopId: DesktopId): string {
    return this.#deps.disks.path(desktopId)
  }

  async diskBytes(desktopId: DesktopId): Promise<number> {
    return (await stat(this.diskPath(desktopId))).size
  }

  async arrivingDiskPath(desktopId: DesktopId): Promise<string> {
    await this.#deps.installation.ready()
    return this.#deps.disks.arrivingPath(desktopId)
  }

  adoptDisk(arrival: Arrival): Promise<void> {
    return this.#deps.disks.adopt(arrival)
  }

  replaceDisk(arrival: Arrival): Promise<void> {
    return this.#deps.disks.replace(arrival)
  }

  async requireHarmless({ spec, mark }: Arrival, memoryPath: string): Promise<void> {
    const { domains } = this.#deps.installation.session.host
    portable(await orRefuse('the saved memory could not be read', domains.saveImageXml(memoryPath)), spec, mark)
  }
}

const seenIn = (xml: string) => ({ machine: machineOf(xml).machine, network: hasInterface(xml) })

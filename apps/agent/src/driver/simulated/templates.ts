// A simulated hypervisor's part in templates: disk and memory of a template are files with their JSON and an archive. Its guests are in folders of
// their own, so they are never listed as desktops.
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type DesktopId, type DesktopSpec, newId, refuse } from '@dormouse/contract'
import { eachDone } from '@dormouse/process'
import type { Readiness } from '../../images/images.ts'
import type { GuestAddress } from '../guest-access.ts'
import type { Mark } from '../mark.ts'
import {
  type MadeTemplate,
  type TemplateDriver,
  type TemplateGuest,
  type TemplateTraits,
  templateFiles,
} from '../templates.ts'
import type { GuestContainers } from './containers.ts'
import { booted, paused, simulatedAddress, toDomain } from './domains.ts'
import type { SimulatedFaults } from './faults.ts'
import { type SimulatedAccess, SimulatedGuest } from './guest.ts'
import { packed, unpacked } from './packed.ts'
import { readSaved, writeSaved } from './saved-image.ts'
import { JsonFolder, type SimulatedDisk, type SimulatedDomain, simulatedDisk, simulatedDomain } from './store.ts'

interface Host {
  folder: string
  domains: JsonFolder<SimulatedDomain>
  disks: JsonFolder<SimulatedDisk>
  containers: GuestContainers
  faults: SimulatedFaults
  hasImage: (name: string) => Promise<boolean>
  restorePaused: (desktopId: DesktopId, path: string, mark: Mark) => Promise<void>
}

const version = '1'
const digestOf = (imageVersion: string): string => `simulated ${imageVersion}`

export class SimulatedTemplates implements TemplateDriver {
  readonly #host: Host
  readonly #domains: JsonFolder<SimulatedDomain>
  readonly #disks: JsonFolder<SimulatedDisk>

  constructor(host: Host) {
    this.#host = host
    this.#domains = new JsonFolder(join(host.folder, 'template-domains'), simulatedDomain)
    this.#disks = new JsonFolder(join(host.folder, 'template-disks'), simulatedDisk)
  }

  async traits(desktopId: DesktopId, spec: DesktopSpec): Promise<TemplateTraits | undefined> {
    const disk = this.#host.disks.read(desktopId)
    return disk && this.#traits({ ...spec, imageVersion: disk.spec.imageVersion })
  }

  async traitsOfImage(_manifestDigest: string, spec: DesktopSpec): Promise<TemplateTraits | undefined> {
    return (await this.#host.hasImage(spec.imageVersion)) ? this.#traits(spec) : undefined
  }

  #traits({ imageVersion, memoryMiB, vcpus }: DesktopSpec): TemplateTraits | undefined {
    const simulated = {
      machine: 'simulated',
      cpuModel: 'simulated',
      emulator: version,
      hypervisor: version,
      kvm: false,
      memory: 'copied',
    } as const
    return { image: digestOf(imageVersion), memoryMiB, vcpus, ...simulated }
  }

  hasImage(manifestDigest: string): Promise<boolean> {
    return this.#host.hasImage(manifestDigest.replace(digestOf(''), ''))
  }

  async readiness(): Promise<Readiness | undefined> {
    return this.#host.faults.readiness
  }

  async boot(buildId: string, _folder: string, spec: DesktopSpec): Promise<void> {
    await this.#host.faults.enter('bootTemplate')
    const mark = { installationId: buildId, desktopId: buildId, generation: 0, turn: 0, operationId: buildId }
    await this.#host.containers.changeDisk(buildId, 'mkdir -p var/log && echo of a template >var/log/boot')
    this.#disks.write(buildId, { spec })
    this.#domains.write(buildId, booted(mark, spec, { nic: false }))
  }

  async domain(buildId: string): Promise<TemplateGuest | undefined> {
    const found = this.#domains.read(buildId)
    return found && toDomain(found)
  }

  guest(buildId: string, access: SimulatedAccess): SimulatedGuest {
    const { faults, containers } = this.#host
    return new SimulatedGuest({ domains: this.#domains, containers, faults }, buildId, access)
  }

  async save(buildId: string, folder: string): Promise<void> {
    const { faults, containers } = this.#host
    await faults.enter('saveTemplate')
    const running = this.#domains.read(buildId) ?? refuse('hypervisor_failed', 'the template’s guest does not run')
    const [domain, files] = [paused(running), await containers.packMemory(buildId)]
    const memory = { domain, savedAs: newId(), ...(files && { files }) }
    await writeSaved(join(folder, templateFiles.memory), memory, async () => undefined)
    const disk = packed(this.#disks.read(buildId), await containers.packDisk(buildId))
    writeFileSync(join(folder, templateFiles.disk), disk)
    this.#remove(buildId)
  }

  async end(buildId: string): Promise<void> {
    await this.#host.faults.enter('endTemplate')
    this.#remove(buildId)
  }

  #remove(buildId: string): void {
    this.#host.containers.end(buildId)
    this.#host.containers.removeDisk(buildId)
    this.#domains.remove(buildId)
    this.#disks.remove(buildId)
  }

  async endAll(): Promise<void> {
    await this.#host.faults.enter('list')
    await eachDone(this.#domains.list(), (buildId) => this.end(buildId))
  }

  /** The guests of templates that are being made. */
  running(): string[] {
    return this.#domains.list()
  }

  async copy({ path: folder }: MadeTemplate, mark: Mark, memoryPath: string): Promise<void> {
    await this.#host.faults.enter('copyTemplate')
    const saved = readSaved(join(folder, templateFiles.memory))
    await writeSaved(memoryPath, { ...saved, domain: { ...saved.domain, mark } }, async () => undefined)
    const { desktopId } = mark
    const { disks, containers } = this.#host
    const { spec } = disks.read(desktopId) ?? refuse('hypervisor_failed', 'the disk is not there')
    const { head, archive } = unpacked(readFileSync(join(folder, templateFiles.disk)))
    const { diskGiB } = simulatedDisk.parse(head).spec
    await containers.unpackDisk(desktopId, archive)
    disks.write(desktopId, { spec: { ...spec, diskGiB } })
  }

  start(_template: MadeTemplate, mark: Mark, memoryPath: string): Promise<void> {
    return this.#host.restorePaused(mark.desktopId, memoryPath, mark)
  }

  async emptyDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<void> {
    this.#host.containers.end(desktopId)
    this.#host.containers.removeDisk(desktopId)
    this.#host.disks.write(desktopId, { spec })
  }

  async growDisk(desktopId: DesktopId, { diskGiB }: DesktopSpec): Promise<boolean> {
    const { disks } = this.#host
    const disk = disks.read(desktopId) ?? refuse('hypervisor_failed', 'the disk is not there')
    if (disk.spec.diskGiB === diskGiB) return false
    disks.write(desktopId, { ...disk, spec: { ...disk.spec, diskGiB } })
    return true
  }

  async plug(desktopId: DesktopId): Promise<GuestAddress> {
    const { domains, faults } = this.#host
    await faults.enter('plug')
    const domain = domains.read(desktopId) ?? refuse('hypervisor_failed', 'the domain does not exist')
    domains.write(desktopId, { ...domain, nic: true })
    return simulatedAddress
  }
}

// Templates on libvirt. A template's guest is a domain with a name of its own kind and without a mark, so nothing takes it for a
// desktop. Its memory is an ordinary file of libvirt's, which a desktop copies with another head; or a file that all map.
import { execFile } from 'node:child_process'
import { chmod, constants, copyFile, rename as moveFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { type DesktopId, type DesktopSpec, refuse } from '@dormouse/contract'
import type { Domain as Handle } from '@dormouse/node-libvirt'
import { eachDone, together } from '@dormouse/process'
import type { Image, Readiness } from '../../images/images.ts'
import type { ImageStore } from '../../images/store.ts'
import { syncPath } from '../../mechanics/durable-file.ts'
import type { GuestAddress } from '../guest-access.ts'
import type { Mark } from '../mark.ts'
import {
  type MadeTemplate,
  type TemplateDriver,
  type TemplateGuest,
  type TemplateTraits,
  templateFiles,
} from '../templates.ts'
import { type BootDeps, cpuModelOf, machineFor, planOf, restoreFromFile, shortenAgentTimeout } from './boot.ts'
import { virtualBytesOf } from './disks.ts'
import { asTemplate, domainName, domainXml, templatePrefix } from './domain-xml.ts'
import { orRefuse, unlessGone } from './failures.ts'
import { hasInterface, nicXml } from './network-xml.ts'
import { virtualBytesIn } from './qcow2.ts'
import { firstForOom, QemuProcesses } from './qemu-processes.ts'
import { rename } from './save-head.ts'
import { type Share, SharedMemory } from './shared-memory.ts'
import { meaningOf } from './state-table.ts'

const run = promisify(execFile)
const makeDiskMs = 60_000
/** QEMU answers at once, unless it hangs. */
const plugMs = 15_000

interface TemplateDeps extends BootDeps {
  images: ImageStore
  movesDir: string
  share: Share
}

export class LibvirtTemplates implements TemplateDriver {
  readonly #deps: TemplateDeps
  readonly #processes = new QemuProcesses()
  readonly #shared: SharedMemory

  constructor(deps: TemplateDeps) {
    this.#deps = deps
    this.#shared = new SharedMemory(deps)
  }

  async traits(desktopId: DesktopId, spec: DesktopSpec): Promise<TemplateTraits | undefined> {
    return this.#traits(await this.#deps.disks.imageOf(desktopId), spec)
  }

  async traitsOfImage(manifestDigest: string, spec: DesktopSpec): Promise<TemplateTraits | undefined> {
    return this.#traits(await this.#deps.images.find(spec.imageVersion, manifestDigest), spec)
  }

  async #traits(image: Image | undefined, { memoryMiB, vcpus }: DesktopSpec): Promise<TemplateTraits | undefined> {
    const { installation, cpuModel } = this.#deps
    if (!image) return undefined
    const { capabilities, kvm, versions } = await installation.ready()
    const [emulator, hypervisor] = [`QEMU ${versions.qemu}`, `libvirt ${versions.libvirt}`]
    const seen = { machine: machineFor(capabilities, image), cpuModel: cpuModelOf(kvm, cpuModel) }
    const memory = this.#shared.form(versions.qemu ?? '')
    return { image: image.manifestDigest, memoryMiB, vcpus, ...seen, emulator, hypervisor, kvm, memory }
  }

  async hasImage(manifestDigest: string): Promise<boolean> {
    return (await this.#deps.images.all()).some(({ image }) => image.manifestDigest === manifestDigest)
  }

  async readiness({ imageVersion }: DesktopSpec, { image }: TemplateTraits): Promise<Readiness | undefined> {
    return (await this.#deps.images.find(imageVersion, image))?.ready
  }

  async boot(buildId: string, folder: string, spec: DesktopSpec, traits: TemplateTraits): Promise<void> {
    const { installation, images } = this.#deps
    const disk = join(folder, templateFiles.disk)
    const image =
      (await images.find(spec.imageVersion, traits.image)) ??
      refuse('image_unavailable', `the host does not have the image "${spec.imageVersion}" any more`)
    await makeOverlay(disk, virtualBytesOf(spec, image), image)
    const nobody = { installationId: installation.id, desktopId: buildId, generation: 0, turn: 0, operationId: buildId }
    const plan = await planOf(this.#deps, spec, nobody, image, { disk, nic: null })
    const name = `${templatePrefix(installation.id)}${buildId}`
    const xml = asTemplate(domainXml(plan), name)
    const create = (own: string) =>
      orRefuse(
        'the template’s guest could not be started',
        installation.session.host.domains.createXml(installation.cpu.shorten(own, plan.type === 'kvm')),
      )
    if (traits.memory === 'copied') await create(xml)
    else await this.#shared.boot(folder, xml, spec, create)
    await this.#processes.setOomScore(name, firstForOom)
    await this.#processes.yieldProcessors(name)
    await shortenAgentTimeout(this.#deps, buildId)
  }

  async domain(buildId: string): Promise<TemplateGuest | undefined> {
    const seen = await this.#handle(buildId).state().catch(unlessGone)
    return seen && { state: meaningOf(seen).state, reason: seen.reason }
  }

  async save(buildId: string, folder: string, { memory }: TemplateTraits): Promise<void> {
    const handle = this.#handle(buildId)
    const saving =
      memory === 'copied' ? handle.save(join(folder, templateFiles.memory)) : this.#shared.save(handle, folder)
    await orRefuse('the template’s memory could not be saved', saving)
  }

  async end(buildId: string): Promise<void> {
    const { consoles, sockets } = this.#deps
    await orRefuse('the template’s guest could not be ended', this.#handle(buildId).destroy().catch(unlessGone))
    await consoles.remove(buildId)
    await sockets.remove(buildId)
  }

  async endAll(): Promise<void> {
    const { installation } = this.#deps
    const prefix = templatePrefix(installation.id)
    const found = await orRefuse('the domains could not be listed', installation.session.host.domains.list())
    const guests = found.filter(({ name }) => name.startsWith(prefix))
    await eachDone(guests, ({ uuid }) => this.end(uuid))
  }

  async copy({ path: folder, traits }: MadeTemplate, mark: Mark, memoryPath: string): Promise<void> {
    const named = { name: domainName(mark), uuid: mark.desktopId }
    const copyMemory = async () => {
      await copyPrivate(join(folder, templateFiles.memory), memoryPath)
      await rename(memoryPath, named)
    }
    const place = (path: string) => copyPrivate(join(folder, templateFiles.disk), path)
    const copyingMemory = traits.memory === 'copied' ? copyMemory() : Promise.resolve()
    await together([this.#replaceDisk(mark.desktopId, place), copyingMemory])
  }

  async start(template: MadeTemplate, mark: Mark, memoryPath: string): Promise<void> {
    if (template.traits.memory === 'copied') await restoreFromFile(this.#deps, memoryPath, mark)
    else await this.#shared.start(template, mark)
  }

  async emptyDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<void> {
    const image = await this.#deps.disks.imageOf(desktopId)
    await this.#replaceDisk(desktopId, (path) => makeOverlay(path, virtualBytesOf(spec, image), image))
  }

  async growDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<boolean> {
    const { disks } = this.#deps
    const bytes = virtualBytesOf(spec, await disks.imageOf(desktopId))
    if (bytes <= (await virtualBytesIn(disks.path(desktopId)))) return false
    await orRefuse('the disk could not be enlarged', this.#handle(desktopId).resizeDisk('vda', bytes))
    return true
  }

  async plug(desktopId: DesktopId): Promise<GuestAddress | undefined> {
    const { network } = await this.#deps.installation.ready()
    if (!network) return undefined
    const handle = this.#handle(desktopId)
    const nic = await network.nicFor(desktopId)
    if (hasInterface(await orRefuse('the domain could not be read', handle.xml()))) return nic
    await orRefuse('the desktop could not join its network', handle.attachDevice(nicXml(nic), { timeoutMs: plugMs }))
    return nic
  }

  /** The old disk is there until the new one is whole and on the host's disk. */
  async #replaceDisk(desktopId: DesktopId, write: (path: string) => Promise<void>): Promise<void> {
    const { disks } = this.#deps
    const path = disks.arrivingPath(desktopId)
    // A copy that was cut off is read-only, also for this user.
    await rm(path, { force: true })
    await write(path)
    await syncPath(path)
    await moveFile(path, disks.path(desktopId))
    await disks.syncFolder()
  }

  #handle(id: string): Handle {
    return this.#deps.installation.domain(id)
  }
}

/** Without a copy if the file system can share the blocks. What is copied is read-only. */
async function copyPrivate(from: string, to: string): Promise<void> {
  await copyFile(from, to, constants.COPYFILE_FICLONE)
  await chmod(to, 0o600)
}

async function makeOverlay(path: string, bytes: number, { disk }: Image): Promise<void> {
  const args = ['create', '-q', '-f', 'qcow2', '-F', 'qcow2', '-b', disk, path, `${bytes}`]
  await run('qemu-img', args, { timeout: makeDiskMs }).catch((cause: unknown) => {
    throw new Error('a disk could not be made', { cause })
  })
}

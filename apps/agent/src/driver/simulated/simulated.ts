// A hypervisor made of small files, with settings for every failure. The same decisions run above it as above libvirt.
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { type DesktopId, type DesktopSpec, newId, refuse, type Shares } from '@dormouse/contract'
import type { Readiness } from '../../images/images.ts'
import { ImageStore } from '../../images/store.ts'
import type {
  Domain,
  Driver,
  DriverEvent,
  DriverFacts,
  GuestKeyboard,
  GuestSleep,
  GuestUsage,
  SavedBy,
  SaveProgress,
} from '../driver.ts'
import type { FileSystem } from '../guest-transport.ts'
import type { Mark } from '../mark.ts'
import { GuestContainers } from './containers.ts'
import { booted, guestSleep, paused, type Standstill, stoodStill, toDomain } from './domains.ts'
import { type FaultSettings, SimulatedFaults } from './faults.ts'
import { type SimulatedAccess, SimulatedGuest } from './guest.ts'
import { SimulatedMoves } from './moves.ts'
import { readSaved, writeSaved } from './saved-image.ts'
import type { HeardInput, SimulatedScreen } from './screen.ts'
import { SimulatedScreens } from './screens.ts'
import { JsonFolder, type SimulatedDisk, type SimulatedDomain, simulatedDisk, simulatedDomain } from './store.ts'
import { SimulatedTemplates } from './templates.ts'

export interface SimulatedSettings {
  /** The folder of what outlives the agent. */
  folder: string
  processors?: number
  capacity?: DriverFacts['capacity']
  images?: string[]
  /** Whether disks can be made of any image, even one that is not listed. */
  anyImage?: boolean
  faults?: FaultSettings
}

const usualImages = ['mini']
const unused: GuestUsage = {
  ...{ processorMs: 0, networkBytes: 0, ranMs: 0, receivedBytes: 0, sentBytes: 0, readBytes: 0, writtenBytes: 0 },
}
const plentyOfProcessors = 64
const plenty = { memoryMiB: 1_048_576, diskGiB: 16_384 }

export class SimulatedDriver implements Driver {
  readonly kind = 'simulated'
  readonly faults: SimulatedFaults
  readonly moves: SimulatedMoves
  readonly templates: SimulatedTemplates
  readonly images: ImageStore
  readonly guestSleep: GuestSleep
  readonly #settings: SimulatedSettings
  readonly #domains: JsonFolder<SimulatedDomain>
  readonly #disks: JsonFolder<SimulatedDisk>
  readonly #containers: GuestContainers
  readonly #listeners: ((event: DriverEvent) => void)[] = []
  readonly #jobs = new Map<DesktopId, AbortController>()
  readonly #lives = new Map<DesktopId, AbortController>()
  readonly #diedOf = new Map<DesktopId, string>()
  readonly #screens = new SimulatedScreens(() => this.faults.keyboard.clipboard)
  #installationId = ''

  constructor(settings: SimulatedSettings) {
    this.#settings = settings
    this.faults = new SimulatedFaults(settings.faults)
    this.images = new ImageStore({ given: undefined, fetched: join(settings.folder, 'images') })
    this.#domains = new JsonFolder(join(settings.folder, 'domains'), simulatedDomain)
    this.#disks = new JsonFolder(join(settings.folder, 'disks'), simulatedDisk)
    this.#containers = new GuestContainers(settings.folder)
    const { folder } = settings
    const host = {
      folder,
      domains: this.#domains,
      disks: this.#disks,
      containers: this.#containers,
      faults: this.faults,
    }
    const images = async () => (settings.anyImage ? ['*'] : this.#imageNames())
    const hasImage = async (name: string) => (await images()).some((each) => each === '*' || each === name)
    this.guestSleep = guestSleep(host)
    this.templates = new SimulatedTemplates({ ...host, hasImage, restorePaused: this.restorePaused.bind(this) })
    this.moves = new SimulatedMoves({
      ...host,
      images,
      pause: (desktopId) => this.#pause(desktopId),
      resume: (desktopId) => this.resume(desktopId),
      end: (desktopId, reason) => this.#end(desktopId, reason),
    })
  }

  async open(installationId: string): Promise<void> {
    this.#installationId = installationId
    for (const desktopId of this.#containers.open()) if (this.#domains.read(desktopId)) this.die(desktopId)
  }

  /** From now on it does not answer; its desktops stay as they are. */
  async close(): Promise<void> {
    this.faults.down = true
    for (const job of this.#jobs.values()) job.abort(new Error('the simulated hypervisor was closed'))
    for (const life of this.#lives.values()) life.abort()
    this.#containers.close()
  }

  async facts(): Promise<DriverFacts> {
    const capacity = this.#settings.capacity ?? plenty
    return {
      kvm: false,
      versions: { simulated: '1' },
      processors: this.#settings.processors ?? plentyOfProcessors,
      capacity,
      freeDiskGiB: this.faults.diskFull ? 0 : capacity.diskGiB,
      images: await this.#imageNames(),
      ailment: this.faults.down ? 'the simulated hypervisor does not answer' : null,
    }
  }

  listen(listener: (event: DriverEvent) => void): void {
    this.#listeners.push(listener)
  }

  /** Ends a guest's process without a command. */
  die(desktopId: DesktopId, reason = 'crashed'): void {
    this.#end(desktopId, reason)
    this.#emit({ type: 'domain', desktopId, reason })
  }

  /** Stops a guest without a command. */
  standStill(desktopId: DesktopId, how: Standstill): void {
    this.#domains.write(desktopId, stoodStill(this.#require(desktopId), how))
    if (how !== 'idle') this.#containers.freeze(desktopId)
    if (how !== 'idle') this.#emit({ type: 'domain', desktopId, reason: how })
  }

  /** Reports that the hypervisor was unreachable for a while. */
  gap(): void {
    this.#emit({ type: 'gap' })
  }

  async domains(): Promise<Domain[]> {
    await this.faults.enter('list')
    return this.#domains
      .list()
      .map((desktopId) => this.#domains.read(desktopId))
      .filter((found) => found?.mark.installationId === this.#installationId)
      .map((found) => toDomain(found!))
  }

  async domain(desktopId: DesktopId): Promise<Domain | undefined> {
    await this.faults.enter('list')
    const found = this.#domains.read(desktopId)
    return found && toDomain(found)
  }

  async startCold(spec: DesktopSpec, mark: Mark): Promise<void> {
    const { desktopId } = mark
    await this.#job(desktopId, (signal) => this.faults.enter('startCold', signal))
    if (this.#domains.read(desktopId)) refuse('hypervisor_failed', 'the domain runs already')
    const disk = this.#disks.read(desktopId)
    if (!disk) return refuse('hypervisor_failed', 'the disk is not there')
    if (disk.half) refuse('hypervisor_failed', 'the disk cannot be booted; making it was interrupted')
    this.#containers.end(desktopId)
    this.#domains.write(desktopId, booted(mark, spec, { nic: true }))
    this.#emit({ type: 'domain', desktopId, reason: null })
  }

  async save(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    await this.#write(desktopId, path, progress)
    this.#end(desktopId, 'saved')
    this.#emit({ type: 'domain', desktopId, reason: 'saved' })
  }

  async saveAndKeep(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    this.#domains.write(desktopId, { ...paused(this.#require(desktopId)), stripped: true })
    await this.#write(desktopId, path, progress)
    this.#domains.write(desktopId, { ...this.#require(desktopId), kept: true })
    this.#containers.cut(desktopId)
    this.#lives.get(desktopId)?.abort()
    this.#lives.delete(desktopId)
    this.#emit({ type: 'domain', desktopId, reason: 'suspended' })
  }

  async isKept(desktopId: DesktopId): Promise<boolean> {
    await this.faults.enter('isKept')
    return this.#require(desktopId).kept === true
  }

  async resumeKept(desktopId: DesktopId): Promise<void> {
    this.#domains.write(desktopId, { ...this.#require(desktopId), stripped: false })
    await this.resume(desktopId)
  }

  /** Whether it still is as a save has left it that keeps it. */
  isStripped(desktopId: DesktopId): boolean {
    return this.#require(desktopId).stripped === true
  }

  async residentMiB(desktopId: DesktopId): Promise<number | undefined> {
    return this.#domains.read(desktopId)?.spec.memoryMiB
  }

  async #write(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    await this.#job(desktopId, async (signal) => {
      await this.faults.enter('save', signal)
      const domain = paused(this.#require(desktopId))
      const savedAs = newId()
      try {
        this.#containers.freeze(desktopId)
        const files = await this.#containers.packMemory(desktopId)
        await writeSaved(path, { domain, savedAs, ...(files && { files }) }, async () => {
          progress(1, 2)
          if (this.faults.diskFull) refuse('host_disk_full', 'the host’s disk is full')
          signal.throwIfAborted()
          this.#require(desktopId)
          this.#containers.noteSave(desktopId, savedAs)
        })
      } catch (error) {
        await rm(path, { force: true })
        if (this.#domains.read(desktopId)?.state === 'running') this.#containers.thaw(desktopId)
        throw error
      }
    })
  }

  async restorePaused(desktopId: DesktopId, path: string, mark: Mark): Promise<void> {
    await this.#job(desktopId, (signal) => this.faults.enter('restorePaused', signal))
    if (this.#domains.read(desktopId)) refuse('hypervisor_failed', 'the domain runs already')
    const { domain, files, savedAs } = readSaved(path)
    this.#containers.restore(desktopId, files, savedAs)
    this.#domains.write(desktopId, {
      ...domain,
      mark,
      outOfSpace: false,
      kept: false,
      stripped: false,
      shares: undefined,
    })
    this.#emit({ type: 'domain', desktopId, reason: null })
  }

  async savedBy(): Promise<SavedBy> {
    return { hypervisor: 'simulated 1', emulator: 'simulated 1', cpuModel: 'simulated', machine: 'simulated' }
  }

  async resume(desktopId: DesktopId): Promise<void> {
    await this.faults.enter('resume')
    const domain = this.#require(desktopId)
    if (domain.state === 'running') return
    if (domain.outOfSpace && this.faults.diskFull) return
    const lag = domain.runningSince === null ? 0 : Date.now() - domain.runningSince
    const memory = { ...domain.memory, clockOffsetMs: domain.memory.clockOffsetMs - lag }
    this.#containers.thaw(desktopId)
    const going = { ...domain, memory, outOfSpace: false, suspended: false, kept: false }
    this.#domains.write(desktopId, { ...going, state: 'running', runningSince: Date.now() })
    this.#emit({ type: 'domain', desktopId, reason: 'resumed' })
  }

  async suspend(desktopId: DesktopId): Promise<void> {
    await this.faults.enter('suspend')
    const domain = this.#require(desktopId)
    if (domain.state === 'running') this.#domains.write(desktopId, paused(domain))
    this.#containers.freeze(desktopId)
    this.#emit({ type: 'domain', desktopId, reason: 'suspended' })
  }

  #pause(desktopId: DesktopId): SimulatedDomain {
    const stopped = paused(this.#require(desktopId))
    this.#containers.freeze(desktopId)
    this.#domains.write(desktopId, stopped)
    this.#emit({ type: 'domain', desktopId, reason: 'migrated' })
    return stopped
  }

  async setMark(mark: Mark): Promise<void> {
    await this.faults.enter('setMark')
    this.#domains.write(mark.desktopId, { ...this.#require(mark.desktopId), mark })
  }

  async setShares(desktopId: DesktopId, shares: Shares | undefined): Promise<void> {
    const domain = this.#domains.read(desktopId)
    if (domain) this.#domains.write(desktopId, { ...domain, shares })
  }

  /** What the running desktop gets of its host. */
  sharesOf(desktopId: DesktopId): Shares | undefined {
    return this.#require(desktopId).shares
  }

  async kill(desktopId: DesktopId): Promise<void> {
    await this.faults.enter('kill')
    this.#end(desktopId, 'destroyed')
  }

  /** A simulated save ends with the agent that began it. */
  async jobEnded(): Promise<void> {}

  async abortJob(desktopId: DesktopId): Promise<void> {
    this.#jobs.get(desktopId)?.abort(new Error('the job was aborted'))
  }

  async freeDiskBytes(): Promise<number> {
    return this.faults.diskFull ? 0 : Number.MAX_SAFE_INTEGER
  }

  async disks(): Promise<DesktopId[]> {
    return this.#disks.list()
  }

  async hasDisk(desktopId: DesktopId): Promise<boolean> {
    return this.#disks.read(desktopId) !== undefined
  }

  async makeDisk(desktopId: DesktopId, spec: DesktopSpec, manifestDigest?: string): Promise<void> {
    await this.faults.enter('makeDisk')
    const { anyImage, images = usualImages } = this.#settings
    const fetched = await this.images.find(spec.imageVersion, manifestDigest)
    if (!anyImage && !fetched && (manifestDigest !== undefined || !images.includes(spec.imageVersion))) {
      refuse('image_unavailable', `this host does not have the image "${spec.imageVersion}"`)
    }
    if (fetched) await this.images.noteUse(fetched)
    if (this.faults.diskFull) refuse('host_disk_full', 'the host’s disk is full')
    if (this.#disks.read(desktopId)) return
    // As with a real disk, an agent that dies here leaves half of one.
    this.#disks.write(desktopId, { spec, half: true })
    await this.faults.enter('fillDisk')
    this.#disks.write(desktopId, { spec })
  }

  async diskGiB(desktopId: DesktopId): Promise<number> {
    return this.#disk(desktopId).spec.diskGiB
  }

  async growDisk(desktopId: DesktopId, diskGiB: number): Promise<void> {
    await this.faults.enter('growDisk')
    const disk = this.#disk(desktopId)
    if (disk.spec.diskGiB >= diskGiB) return
    if (this.faults.diskFull) refuse('host_disk_full', 'the host’s disk is full')
    this.#disks.write(desktopId, { ...disk, spec: { ...disk.spec, diskGiB } })
  }

  #disk(desktopId: DesktopId) {
    return this.#disks.read(desktopId) ?? refuse('hypervisor_failed', 'the disk is not there')
  }

  async removeDisk(desktopId: DesktopId): Promise<void> {
    await this.faults.enter('removeDisk')
    this.#containers.end(desktopId)
    this.#containers.removeDisk(desktopId)
    this.#disks.remove(desktopId)
    if (!this.#domains.read(desktopId)) this.#domains.remove(desktopId)
    await this.moves.forget(desktopId)
  }

  async newAddress(): Promise<undefined> {}

  readonly frozen = (desktopId: DesktopId): boolean => this.#domains.read(desktopId)?.state === 'paused'

  /** What guests have used is set here by a test. */
  readonly used = new Map<DesktopId, GuestUsage>()

  async usage(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, GuestUsage>> {
    const usageOf = (desktopId: DesktopId): GuestUsage => ({
      ...unused,
      memoryMiB: this.#domains.read(desktopId)?.spec.memoryMiB,
      ...this.used.get(desktopId),
    })
    return new Map(desktopIds.map((desktopId) => [desktopId, usageOf(desktopId)]))
  }

  /** What guests print, and their file systems, are set here by a test. */
  readonly prints = new Map<DesktopId, string>()
  readonly fileSystems = new Map<DesktopId, FileSystem[]>()

  async printed(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, string>> {
    const taken = desktopIds.map((desktopId) => [desktopId, this.prints.get(desktopId) ?? ''] as const)
    for (const desktopId of desktopIds) this.prints.delete(desktopId)
    return new Map(taken)
  }

  guest(desktopId: DesktopId, access: SimulatedAccess): SimulatedGuest {
    const { faults } = this
    return new SimulatedGuest({ domains: this.#domains, containers: this.#containers, faults }, desktopId, access)
  }

  /** Aborts when the domain's process ends, and when it is saved. */
  life(desktopId: DesktopId): AbortSignal {
    return this.#life(desktopId).signal
  }

  /** By how much the guest's clock is ahead of the host's. */
  clockOffsetMs(desktopId: DesktopId): number {
    return this.#require(desktopId).memory.clockOffsetMs
  }

  /** Whether the guest has requested its address. */
  hasAddress(desktopId: DesktopId): boolean {
    return this.#require(desktopId).memory.hasAddress
  }

  async readiness(): Promise<Readiness | undefined> {
    return this.faults.readiness
  }

  async clipboardConnected(): Promise<boolean> {
    return this.faults.clipboardConnected
  }

  async keyboard(): Promise<GuestKeyboard> {
    return this.faults.keyboard
  }

  async screen(desktopId: DesktopId): Promise<Duplex> {
    await this.faults.enter('screen')
    this.#require(desktopId)
    const [guest, host] = duplexPair()
    void this.#screens.of(desktopId).serve(guest, this.#life(desktopId).signal)
    return host
  }

  /** What keys and pointer the desktop got, the oldest first. */
  heardBy(desktopId: DesktopId): readonly HeardInput[] {
    return this.#screens.of(desktopId).heard
  }

  /** The screen as its user and the guest's programs have it. */
  screenOf(desktopId: DesktopId): SimulatedScreen {
    return this.#screens.of(desktopId)
  }

  async imageFoldersInUse(): Promise<Set<string>> {
    const disks = this.#disks.list().map((desktopId) => this.#disks.read(desktopId))
    return new Set(
      disks.filter((disk) => disk !== undefined).map(({ spec }) => this.images.pathOfFetched(spec.imageVersion)),
    )
  }

  async #imageNames(): Promise<string[]> {
    return [...new Set([...(this.#settings.images ?? usualImages), ...(await this.images.list())])]
  }

  #require(desktopId: DesktopId): SimulatedDomain {
    return (
      this.#domains.read(desktopId) ??
      refuse('hypervisor_failed', `the domain does not exist${this.#endedBy(desktopId)}`)
    )
  }

  #endedBy(desktopId: DesktopId): string {
    const reason = this.#diedOf.get(desktopId)
    return reason ? ` (${reason})` : ''
  }

  #life(desktopId: DesktopId): AbortController {
    const life = this.#lives.get(desktopId) ?? new AbortController()
    this.#lives.set(desktopId, life)
    return life
  }

  #end(desktopId: DesktopId, reason: string): void {
    this.#domains.end(desktopId)
    this.#containers.leave(desktopId)
    this.#diedOf.set(desktopId, reason)
    this.#lives.get(desktopId)?.abort()
    this.#lives.delete(desktopId)
  }

  async #job<T>(desktopId: DesktopId, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const controller = new AbortController()
    this.#jobs.set(desktopId, controller)
    try {
      return await work(controller.signal)
    } finally {
      this.#jobs.delete(desktopId)
    }
  }

  #emit(event: DriverEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

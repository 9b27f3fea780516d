// Desktops as libvirt domains. Each is transient: it exists as long as its process. What must outlive it is in the journal
// and in files, so no second record can disagree with them.
import { join } from 'node:path'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopId, DesktopSpec, Shares } from '@dormouse/contract'
import type { Domain as Handle, HostEvent } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
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
import type { GuestAccess, GuestAddress, GuestEvent } from '../guest-access.ts'
import type { Mark } from '../mark.ts'
import { bootFromDisk, restoreFromFile } from './boot.ts'
import { freeBytes } from './capacity.ts'
import { offerClipboard, withoutClipboard } from './clipboard.ts'
import { Consoles } from './consoles.ts'
import { LibvirtDisks } from './disks.ts'
import { DomainStates } from './domain-states.ts'
import { hasClipboard, isClipboardConnected, machineOf, markKey, markNamespace, markXml } from './domain-xml.ts'
import { orRefuse, unlessGone } from './failures.ts'
import { LibvirtGuests } from './guest-access.ts'
import { guestSleep, run } from './guest-sleep.ts'
import { Installation } from './installation.ts'
import { isKept, makeSavable, saveSuspended } from './kept.ts'
import { LibvirtMoves } from './moves.ts'
import { Pauses } from './pauses.ts'
import { blankTuning } from './save-head.ts'
import { OpenScreens, openScreen } from './screens.ts'
import { Session } from './session.ts'
import type { LibvirtSettings } from './settings.ts'
import { GuestShares } from './shares.ts'
import { Sockets } from './sockets.ts'
import { LibvirtTemplates } from './templates.ts'

const progressEveryMs = 500
const jobPollMs = 50

export class LibvirtDriver implements Driver {
  readonly kind = 'libvirt'
  readonly moves: LibvirtMoves
  readonly templates: LibvirtTemplates
  readonly images: ImageStore
  readonly guestSleep: GuestSleep
  readonly #settings: LibvirtSettings
  readonly #log: Log
  readonly #session: Session
  readonly #installation: Installation
  readonly #disks: LibvirtDisks
  readonly #consoles: Consoles
  readonly #sockets: Sockets
  readonly #pauses = new Pauses()
  readonly #screens = new OpenScreens()
  readonly #states: DomainStates
  readonly #guests: LibvirtGuests
  readonly #shares: GuestShares
  readonly #listeners: ((event: DriverEvent) => void)[] = []

  constructor(settings: LibvirtSettings, log: Log) {
    this.#settings = settings
    this.#log = log
    this.#session = new Session(settings, log, (event) => this.#heard(event))
    this.images = new ImageStore({ given: settings.imagesDir, fetched: join(settings.disksDir, 'images') })
    this.#installation = new Installation(this.#session, settings, this.images, log)
    this.#consoles = new Consoles(settings.consolesDir)
    this.#sockets = new Sockets(settings.socketsDir)
    const pool = async () => (await this.#installation.ready()).pool
    this.#disks = new LibvirtDisks(settings.disksDir, this.images, pool)
    this.#states = new DomainStates(this.#installation, this.#pauses)
    this.#guests = new LibvirtGuests(this.#installation)
    this.#shares = new GuestShares(this.#installation, log)
    this.guestSleep = guestSleep((desktopId) => this.#installation.domain(desktopId))
    const { movesDir, shareTemplates: share } = settings
    const interrupted = (desktopId: DesktopId) => this.#emitGuest(desktopId, 'interrupted')
    this.templates = new LibvirtTemplates({ ...this.#bootDeps(), images: this.images, movesDir, share })
    this.moves = new LibvirtMoves({ ...this.#bootDeps(), movesDir, images: this.images, interrupted })
  }

  open(installationId: string): Promise<void> {
    return this.#installation.open(installationId)
  }

  async close(): Promise<void> {
    this.#session.close()
  }

  listen(listener: (event: DriverEvent) => void): void {
    this.#listeners.push(listener)
  }

  async facts(): Promise<DriverFacts> {
    const facts = await this.#installation.facts(this.#consoles)
    const shares = this.#shares.lacking
    return shares ? { ...facts, versions: { ...facts.versions, shares } } : facts
  }

  setShares(desktopId: DesktopId, shares: Shares | undefined): Promise<void> {
    return this.#shares.set(desktopId, shares)
  }

  domains(): Promise<Domain[]> {
    return this.#states.list()
  }

  domain(desktopId: DesktopId): Promise<Domain | undefined> {
    return this.#states.read(desktopId)
  }

  startCold(spec: DesktopSpec, mark: Mark): Promise<void> {
    return bootFromDisk(this.#bootDeps(), spec, mark)
  }

  restorePaused(_desktopId: DesktopId, path: string, mark: Mark): Promise<void> {
    return restoreFromFile(this.#bootDeps(), path, mark)
  }

  async save(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    const handle = this.#installation.domain(desktopId)
    await this.#observed(handle, progress, async () => {
      await makeSavable(handle)
      await withoutClipboard(handle, this.#log, () => handle.save(path))
    })
    await this.#leaveTuningOut(path)
    this.#emitGuest(desktopId, 'interrupted')
  }

  async saveAndKeep(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    const handle = this.#installation.domain(desktopId)
    await this.#observed(handle, progress, async () => {
      await makeSavable(handle)
      await withoutClipboard(handle, this.#log, () => saveSuspended(handle, path))
    })
    await this.#leaveTuningOut(path)
    await this.#disks.sync(desktopId)
    this.#screens.close(desktopId)
    this.#emitGuest(desktopId, 'kept')
    await this.#guests.preferForOom(desktopId, true)
  }

  /** A host of release 0.1 refuses a saved desktop with limits, and no other needs that they are left out. */
  async #leaveTuningOut(path: string): Promise<void> {
    await blankTuning(path).catch((err: unknown) =>
      this.#log.warn({ err, path }, 'a saved memory can move only to hosts of this release'),
    )
  }

  isKept(desktopId: DesktopId): Promise<boolean> {
    return orRefuse('the desktop’s process could not be asked', isKept(this.#installation.domain(desktopId)))
  }

  async resumeKept(desktopId: DesktopId): Promise<void> {
    const handle = this.#installation.domain(desktopId)
    const { clipboard } = await this.#disks.imageOf(desktopId)
    if (clipboard && !hasClipboard(await orRefuse('the domain could not be read', handle.xml())))
      await offerClipboard(handle, this.#log)
    await this.#guests.preferForOom(desktopId, false)
    await this.resume(desktopId)
  }

  residentMiB(desktopId: DesktopId): Promise<number | undefined> {
    return this.#guests.residentMiB(desktopId)
  }

  /** Reports the progress of a save. */
  async #observed(handle: Handle, progress: SaveProgress, save: () => Promise<void>): Promise<void> {
    const timer = setInterval(() => {
      handle.jobInfo().then(
        ({ type, dataProcessedBytes, dataTotalBytes }) => {
          if (type === 'bounded' || type === 'unbounded') progress(dataProcessedBytes, dataTotalBytes)
        },
        (error: unknown) => this.#log.debug({ err: error }, 'the progress of a save could not be read'),
      )
    }, progressEveryMs)
    await orRefuse('the memory could not be saved', save()).finally(() => clearInterval(timer))
  }

  async savedBy(desktopId: DesktopId): Promise<SavedBy> {
    const { versions } = await this.#installation.ready()
    return {
      hypervisor: `libvirt ${versions.libvirt}`,
      emulator: `QEMU ${versions.qemu}`,
      ...machineOf(await orRefuse('the domain could not be read', this.#installation.domain(desktopId).xml())),
    }
  }

  async resume(desktopId: DesktopId): Promise<void> {
    await orRefuse('the desktop could not be resumed', run(this.#installation.domain(desktopId)))
  }

  async suspend(desktopId: DesktopId): Promise<void> {
    await orRefuse('the desktop could not be suspended', this.#installation.domain(desktopId).suspend())
  }

  async setMark(mark: Mark): Promise<void> {
    const metadata = { uri: markNamespace, key: markKey, xml: markXml(mark) }
    await orRefuse('the desktop could not be marked', this.#installation.domain(mark.desktopId).setMetadata(metadata))
  }

  async kill(desktopId: DesktopId): Promise<void> {
    this.#emitGuest(desktopId, 'killed')
    this.#guests.release(desktopId)
    if (!(await this.domain(desktopId))) return
    const handle = this.#installation.domain(desktopId)
    await orRefuse('the desktop’s process could not be ended', handle.destroy().catch(unlessGone))
    await orRefuse('the desktop could not be undefined', handle.undefine().catch(unlessGone))
  }

  async jobEnded(desktopId: DesktopId): Promise<void> {
    while (await this.#states.hasJob(desktopId)) await sleep(jobPollMs)
  }

  async abortJob(desktopId: DesktopId): Promise<void> {
    if (!(await this.domain(desktopId))) return
    const aborting = this.#installation.domain(desktopId).abortJob()
    await orRefuse('the job could not be aborted', aborting.catch(unlessGone))
  }

  freeDiskBytes(): Promise<number> {
    return freeBytes(this.#settings.disksDir)
  }

  disks(): Promise<DesktopId[]> {
    return this.#disks.list()
  }

  hasDisk(desktopId: DesktopId): Promise<boolean> {
    return this.#disks.has(desktopId)
  }

  makeDisk(desktopId: DesktopId, spec: DesktopSpec, manifestDigest?: string): Promise<void> {
    return this.#disks.make(desktopId, spec, manifestDigest)
  }

  diskGiB(desktopId: DesktopId): Promise<number> {
    return this.#disks.gibOf(desktopId)
  }

  growDisk(desktopId: DesktopId, diskGiB: number): Promise<void> {
    return this.#disks.grow(desktopId, diskGiB)
  }

  imageFoldersInUse(): Promise<Set<string>> {
    return this.#disks.imageFolders()
  }

  async removeDisk(desktopId: DesktopId): Promise<void> {
    await this.#disks.remove(desktopId)
    await this.#consoles.remove(desktopId)
    await (await this.#installation.ready()).network?.releaseAddress(desktopId)
    await this.#sockets.remove(desktopId)
    await this.moves.forget(desktopId)
    this.#guests.release(desktopId)
    this.#pauses.forget(desktopId)
  }

  screen(desktopId: DesktopId): Promise<Duplex> {
    return this.#screens.keep(desktopId, openScreen(this.#installation.domain(desktopId)))
  }

  async clipboardConnected(desktopId: DesktopId): Promise<boolean> {
    return isClipboardConnected(await this.#installation.domain(desktopId).xml())
  }

  async keyboard(desktopId: DesktopId): Promise<GuestKeyboard> {
    const { keyboardLayout: layout, clipboard } = await this.#disks.imageOf(desktopId)
    return { layout, clipboard }
  }

  readiness(desktopId: DesktopId): Promise<Readiness | undefined> {
    return this.#disks.readiness(desktopId)
  }

  async newAddress(desktopId: DesktopId): Promise<GuestAddress | undefined> {
    return (await this.#installation.ready()).network?.takeNewAddress(desktopId)
  }

  usage(desktopIds: readonly DesktopId[], options?: { whole?: boolean }): Promise<Map<DesktopId, GuestUsage>> {
    return this.#guests.usage(desktopIds, options)
  }

  printed(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, string>> {
    return this.#consoles.printed(desktopIds)
  }

  guestAccess(desktopId: DesktopId): GuestAccess {
    return this.#guests.access(desktopId)
  }

  frozen(desktopId: DesktopId): boolean {
    return this.#pauses.has(desktopId) || this.#guests.frozen(desktopId)
  }

  #bootDeps() {
    const { cpuModel } = this.#settings
    const [installation, disks, consoles, sockets] = [this.#installation, this.#disks, this.#consoles, this.#sockets]
    return { installation, disks, consoles, sockets, cpuModel, log: this.#log }
  }

  #heard(event: HostEvent): void {
    if (event.type === 'gap') {
      this.#installation.reset()
      this.#pauses.clear()
      this.#emit({ type: 'gap' })
    }
    if (event.type === 'reboot') this.#emitGuest(event.domain.uuid, 'interrupted')
    if (event.type === 'agent' && event.state === 'disconnected') this.#emitGuest(event.domain.uuid, 'agent-lost')
    if (event.type !== 'lifecycle' || !event.domain.name.startsWith('dormouse-')) return
    this.#pauses.heard(event.domain.uuid, event.event === 'suspended' || event.event === 'pmsuspended')
    // A port closes with its process; a connection over a network would not notice.
    if (event.event === 'stopped') this.#emitGuest(event.domain.uuid, 'interrupted')
    this.#emit({ type: 'domain', desktopId: event.domain.uuid, reason: `${event.event} ${event.detail}` })
  }

  #emitGuest(desktopId: DesktopId, change: GuestEvent['change']): void {
    this.#emit({ type: 'guest', desktopId, change })
  }

  #emit(event: DriverEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

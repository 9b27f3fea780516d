// Desktops as libvirt domains. Each is transient: it lives as long as its process, and what is known of it beyond that
// stands in the journal and in files, so that no second truth can disagree.
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, type DesktopSpec, isId, Refusal, refuse } from '@dormouse/contract'
import { type Domain as Handle, type HostEvent, isLibvirtError, type Pool, versionText } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import { GuestAgentTransport } from '../../guest-agent/transport.ts'
import { listImages, type Readiness } from '../../images/images.ts'
import type { Domain, Driver, DriverEvent, DriverFacts, Mark, SavedBy, SaveProgress } from '../driver.ts'
import type { SshAddress } from '../guest-access.ts'
import type { GuestTransport } from '../guest-transport.ts'
import { agentCall } from './agent-call.ts'
import { type Capabilities, kvmOpens, readCapabilities } from './capabilities.ts'
import { offerClipboard, withoutClipboard } from './clipboard.ts'
import { Consoles } from './consoles.ts'
import { LibvirtDisks } from './disks.ts'
import {
  domainName,
  domainXml,
  madeAs,
  markKey,
  markNamespace,
  markXml,
  readMark,
  sshSocketOf,
  withMarkAndDisk,
} from './domain-xml.ts'
import { asRefusal, damaged, saying, unlessGone } from './failures.ts'
import { ensurePool } from './furnish.ts'
import { GuestLines } from './guest-lines.ts'
import { isUnheld, unplugged } from './network-xml.ts'
import { Pauses } from './pauses.ts'
import { QemuProcesses } from './qemu-processes.ts'
import { freeBytes, roomOf } from './room.ts'
import { openScreen, takePicture } from './screens.ts'
import { Session } from './session.ts'
import type { LibvirtSettings } from './settings.ts'
import { Sockets } from './sockets.ts'
import { ensureNetwork, type Networking } from './start-network.ts'

interface Ready {
  capabilities: Capabilities
  kvm: boolean
  pool: Pool
  network: Networking['network']
  versions: Record<string, string>
}

const emulatedCpu = 'qemu64'
const progressEveryMs = 500
const jobPollMs = 50
const openNow =
  'the firewall of the guests’ network could not be put back: awake guests may reach more than they should'
/** What libvirt says of an image it cannot read, or QEMU of a memory it cannot load. */
const imageAtFault =
  /save(d)? image|image (magic|format|header)|load of migration|migration stream|failed to read qemu header/i

export class LibvirtDriver implements Driver {
  readonly kind = 'libvirt'
  readonly #settings: LibvirtSettings
  readonly #log: Log
  readonly #session: Session
  readonly #disks: LibvirtDisks
  readonly #lines: GuestLines
  readonly #consoles: Consoles
  readonly #sockets: Sockets
  readonly #processes = new QemuProcesses()
  readonly #pauses = new Pauses()
  readonly #listeners: ((event: DriverEvent) => void)[] = []
  #installationId = ''
  #ready: Promise<Ready> | undefined

  constructor(settings: LibvirtSettings, log: Log) {
    this.#settings = settings
    this.#log = log
    this.#session = new Session(settings, log, (event) => this.#heard(event))
    this.#lines = new GuestLines(settings.guestKeysDir, log)
    this.#consoles = new Consoles(settings.consolesDir)
    this.#sockets = new Sockets(settings.socketsDir)
    this.#disks = new LibvirtDisks(settings.disksDir, settings.imagesDir, async () => (await this.#furnished()).pool)
  }

  async open(installationId: string): Promise<void> {
    this.#installationId = installationId
    await this.#session.begin()
  }

  async close(): Promise<void> {
    this.#lines.close()
    this.#session.close()
  }

  listen(listener: (event: DriverEvent) => void): void {
    this.#listeners.push(listener)
  }

  async facts(): Promise<DriverFacts> {
    const images = await listImages(this.#settings.imagesDir)
    const none = { processors: 0, capacity: { memoryMiB: 0, diskGiB: 0 } }
    const unusable = (ailment: string): DriverFacts => {
      return { kvm: false, versions: {}, ...none, freeDiskGiB: 0, images, ailment }
    }
    if (this.#session.ailment) return unusable(this.#session.ailment)
    try {
      const { kvm, versions, network } = await this.#furnished()
      await network?.hold().catch((error: unknown) => this.#log.error({ err: error, alarm: true }, openNow))
      const { disksDir, capacity } = this.#settings
      await this.#consoles.bound()
      return { kvm, versions, ...(await roomOf(this.#session.host, disksDir, capacity)), images, ailment: null }
    } catch (error) {
      return unusable(error instanceof Refusal ? error.detail : String(error))
    }
  }

  async domains(): Promise<Domain[]> {
    const found = await saying('the domains could not be listed', this.#session.host.domains.list())
    const seen = await Promise.all(found.filter(({ uuid }) => isId(uuid)).map((handle) => this.#see(handle)))
    return seen.filter((domain) => domain !== undefined)
  }

  domain(desktopId: DesktopId): Promise<Domain | undefined> {
    return this.#see(this.#handle(desktopId))
  }

  async startCold(spec: DesktopSpec, mark: Mark): Promise<void> {
    const { desktopId } = mark
    const { capabilities, kvm, network } = await this.#furnished()
    const image = await this.#disks.imageOf(desktopId)
    const { cpuModel } = this.#settings
    const xml = domainXml({
      spec,
      mark,
      type: kvm ? 'kvm' : 'qemu',
      emulator: capabilities.emulator,
      machine: capabilities.machines.get(image.machine) ?? image.machine,
      cpuModel: kvm ? cpuModel : emulatedCpu,
      kernel: image.kernel,
      initrd: image.initrd,
      cmdline: image.cmdline,
      disk: this.#disks.path(desktopId),
      console: await this.#consoles.ready(desktopId),
      nic: (await network?.place(desktopId)) ?? null,
      vncSocket: await this.#sockets.ready(desktopId, 'vnc'),
      sshSocket: image.ssh === 'port' ? await this.#sockets.ready(desktopId, 'ssh') : undefined,
    })
    await saying('the desktop could not be started', this.#session.host.domains.createXml(xml))
    if (image.clipboard) await offerClipboard(this.#handle(desktopId), this.#log)
    await this.#hasten(desktopId)
  }

  async save(desktopId: DesktopId, path: string, progress: SaveProgress): Promise<void> {
    const handle = this.#handle(desktopId)
    const saving = withoutClipboard(handle, this.#log, () => handle.save(path))
    const watch = setInterval(() => {
      handle.jobInfo().then(
        ({ type, dataProcessedBytes, dataTotalBytes }) => {
          if (type === 'bounded' || type === 'unbounded') progress(dataProcessedBytes, dataTotalBytes)
        },
        (error: unknown) => this.#log.debug({ err: error }, 'the progress of a save was not told'),
      )
    }, progressEveryMs)
    await saying('the memory could not be saved', saving).finally(() => clearInterval(watch))
    this.#lines.ended(desktopId)
  }

  async restorePaused(desktopId: DesktopId, path: string, mark: Mark): Promise<void> {
    const { network } = await this.#furnished()
    const { domains } = this.#session.host
    try {
      const saved = withMarkAndDisk(await domains.saveImageXml(path), mark, this.#disks.path(desktopId))
      if (!network && isUnheld(saved))
        refuse('hypervisor_failed', 'this host has no network for the memory; it is kept')
      const xml = network ? await network.held(desktopId, saved) : unplugged(saved)
      await this.#consoles.ready(desktopId)
      await this.#sockets.ready(desktopId, 'vnc')
      await domains.restore(path, { xml, paused: true })
    } catch (error) {
      if (isLibvirtError(error) && imageAtFault.test(error.message)) damaged(error.message)
      await saying('the memory could not be restored; it is kept', Promise.reject(error))
    }
    if (await this.#disks.sharesClipboard(desktopId)) await offerClipboard(this.#handle(desktopId), this.#log)
    await this.#hasten(desktopId)
  }

  async savedBy(desktopId: DesktopId): Promise<SavedBy> {
    const { versions } = await this.#furnished()
    return {
      hypervisor: `libvirt ${versions.libvirt}`,
      emulator: `QEMU ${versions.qemu}`,
      ...madeAs(await saying('the domain could not be read', this.#handle(desktopId).xml())),
    }
  }

  async resume(desktopId: DesktopId): Promise<void> {
    await saying('the desktop could not be resumed', this.#handle(desktopId).resume())
  }

  async suspend(desktopId: DesktopId): Promise<void> {
    await saying('the desktop could not be suspended', this.#handle(desktopId).suspend())
  }

  async setMark(mark: Mark): Promise<void> {
    const metadata = { uri: markNamespace, key: markKey, xml: markXml(mark) }
    await saying('the desktop could not be marked', this.#handle(mark.desktopId).setMetadata(metadata))
  }

  async kill(desktopId: DesktopId): Promise<void> {
    this.#lines.drop(desktopId)
    const found = await this.domain(desktopId)
    if (!found) return
    const handle = this.#handle(desktopId)
    await saying('the desktop could not be ended', handle.destroy().catch(unlessGone))
    await saying('the desktop could not be forgotten', handle.undefine().catch(unlessGone))
  }

  async jobEnded(desktopId: DesktopId): Promise<void> {
    const handle = this.#handle(desktopId)
    while (await this.#hasJob(handle)) await sleep(jobPollMs)
  }

  async abortJob(desktopId: DesktopId): Promise<void> {
    if (!(await this.domain(desktopId))) return
    await saying('the job could not be aborted', this.#handle(desktopId).abortJob().catch(unlessGone))
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

  makeDisk(desktopId: DesktopId, spec: DesktopSpec): Promise<void> {
    return this.#disks.make(desktopId, spec)
  }

  async removeDisk(desktopId: DesktopId): Promise<void> {
    await this.#disks.remove(desktopId)
    await this.#consoles.remove(desktopId)
    await this.#lines.forget(desktopId)
    await (await this.#furnished()).network?.free(desktopId)
    await this.#sockets.remove(desktopId)
    this.#pauses.forget(desktopId)
  }

  screen(desktopId: DesktopId): Promise<Duplex> {
    return openScreen(this.#handle(desktopId))
  }

  picture(desktopId: DesktopId): Promise<Buffer> {
    return takePicture(this.#handle(desktopId))
  }

  readiness(desktopId: DesktopId): Promise<Readiness | undefined> {
    return this.#disks.readiness(desktopId)
  }

  guest(desktopId: DesktopId): GuestTransport {
    const handle = () => this.#handle(desktopId)
    const turns = this.#lines.turns(desktopId)
    const pulse = this.#processes.pulse(handle().name)
    const daemon = () => handle().state()
    const call = agentCall({ agent: () => this.#session.host.guestAgent(handle()), pulse, turns, daemon })
    const agent = new GuestAgentTransport(call)
    return this.#lines.guest(desktopId, { agent, pulse, door: () => this.#door(desktopId) })
  }

  frozen(desktopId: DesktopId): boolean {
    return this.#pauses.has(desktopId) || this.#processes.pulse(this.#handle(desktopId).name).frozen()
  }

  /** The port where the domain has one; else its address, where its image says that SSH is to be had there. */
  async #door(desktopId: DesktopId): Promise<SshAddress | undefined> {
    const xml = await saying('the domain could not be read', this.#handle(desktopId).xml())
    const path = sshSocketOf(xml)
    if (path) return { path }
    const { network } = await this.#furnished()
    if (!network || (await this.#disks.imageOf(desktopId)).ssh !== 'network') return undefined
    return network.door(desktopId, xml)
  }

  /** libvirt finds a domain by its UUID, which is the desktop's id. */
  #handle(desktopId: DesktopId): Handle {
    const name = domainName({ installationId: this.#installationId, desktopId })
    return this.#session.host.domains.of({ uuid: desktopId, name })
  }

  async #see(handle: Handle): Promise<Domain | undefined> {
    const answered = this.#pauses.ask(handle.uuid)
    try {
      const [{ state, reason }, metadata] = await Promise.all([handle.state(), handle.metadata(markNamespace)])
      const mark = metadata && readMark(metadata)
      if (!mark || mark.installationId !== this.#installationId) return undefined
      answered(stateOf(state) === 'paused')
      const outOfSpace = state === 'paused' && reason === 'ioerror'
      const said = state === 'running' ? null : reason
      return { desktopId: handle.uuid, mark, state: stateOf(state), reason: said, outOfSpace }
    } catch (error) {
      if (isLibvirtError(error, 'noDomain')) return undefined
      return saying('the domain could not be seen', Promise.reject(error))
    }
  }

  /** A save that is `completed` still ends its process, and its domain is seen until that is done. */
  async #hasJob(handle: Handle): Promise<boolean> {
    try {
      return (await handle.jobInfo()).type !== 'none'
    } catch (error) {
      if (isLibvirtError(error, 'noDomain', 'operationInvalid')) return false
      return saying('the desktop’s job could not be seen', Promise.reject(error))
    }
  }

  /** A mute guest agent then costs a second, not five. The desktop runs just as well without it. */
  async #hasten(desktopId: DesktopId): Promise<void> {
    try {
      await this.#session.host.guestAgent(this.#handle(desktopId)).setResponseTimeout(1)
    } catch (error) {
      this.#log.warn({ err: error, desktopId }, 'the guest agent’s response time could not be set')
    }
  }

  #furnished(): Promise<Ready> {
    this.#ready ??= this.#furnish().catch((error: unknown) => {
      this.#ready = undefined
      throw asRefusal('the host is not ready for desktops', error)
    })
    return this.#ready
  }

  async #furnish(): Promise<Ready> {
    const { host } = this.#session
    const { disksDir, network, networkPrefix: prefix, networkAllow: openings } = this.#settings
    const capabilities = readCapabilities(await saying('libvirt’s capabilities could not be read', host.capabilities()))
    if (!capabilities) {
      return refuse('hypervisor_failed', 'QEMU for x86_64 is not installed (Debian: apt-get install qemu-system-x86)')
    }
    const kvm = await this.#chooseKvm(capabilities)
    const pool = await ensurePool(host, this.#installationId, disksDir)
    const guests = await ensureNetwork(host, this.#installationId, { network, prefix, openings }, this.#log)
    const [libvirt, qemu] = await Promise.all([host.libraryVersion(), host.version()])
    const versions = { libvirt: versionText(libvirt), qemu: versionText(qemu), network: guests.said }
    return { capabilities, kvm, pool, network: guests.network, versions }
  }

  async #chooseKvm({ kvm }: Capabilities): Promise<boolean> {
    if (this.#settings.kvm === 'off') return false
    const usable = kvm && (await kvmOpens())
    if (usable || this.#settings.kvm === 'auto') return usable
    return refuse('hypervisor_failed', 'KVM is insisted on and cannot be used here: set DORMOUSE_AGENT_KVM to auto')
  }

  #heard(event: HostEvent): void {
    if (event.type === 'gap') {
      this.#ready = undefined
      this.#pauses.clear()
      this.#tell({ type: 'gap' })
    }
    if (event.type === 'reboot') this.#lines.ended(event.domain.uuid)
    if (event.type === 'agent' && event.state === 'disconnected') this.#lines.doubt(event.domain.uuid)
    if (event.type !== 'lifecycle' || !event.domain.name.startsWith('dormouse-')) return
    this.#pauses.heard(event.domain.uuid, event.event === 'suspended')
    // A port closes with its process; a connection over a network would not notice.
    if (event.event === 'stopped') this.#lines.ended(event.domain.uuid)
    this.#tell({ type: 'domain', desktopId: event.domain.uuid, reason: `${event.event} ${event.detail}` })
  }

  #tell(event: DriverEvent): void {
    for (const listener of this.#listeners) listener(event)
  }
}

/** A guest that powers off still has its process, and its memory, until it is shut off. */
function stateOf(state: string): Domain['state'] {
  if (state === 'paused' || state === 'pmsuspended') return 'paused'
  return ['shutoff', 'crashed', 'nostate'].includes(state) ? 'stopped' : 'running'
}

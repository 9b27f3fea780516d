// This installation on libvirt: its storage pool, its network and the handles of its domains. Set up when the first call
// needs it, and again after the connection to libvirt was lost.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import { type Domain as Handle, type Pool, versionText } from '@dormouse/node-libvirt'
import type { Log } from '@dormouse/process'
import type { ImageStore } from '../../images/store.ts'
import type { DriverFacts } from '../driver.ts'
import { type Capabilities, kvmOpens, readCapabilities } from './capabilities.ts'
import { capacityOf } from './capacity.ts'
import type { Consoles } from './consoles.ts'
import { CpuQuestions } from './cpu-questions.ts'
import { domainName } from './domain-xml.ts'
import { asRefusal, orRefuse } from './failures.ts'
import type { Session } from './session.ts'
import type { LibvirtSettings } from './settings.ts'
import { ensureNetwork, type Networking } from './start-network.ts'
import { ensurePool } from './storage-pool.ts'

export interface Ready {
  capabilities: Capabilities
  kvm: boolean
  pool: Pool
  network: Networking['network']
  versions: Record<string, string>
}

const firewallDown =
  'the firewall of the guests’ network could not be restored; awake guests may reach more than they should'

export class Installation {
  readonly session: Session
  readonly cpu: CpuQuestions
  readonly #settings: LibvirtSettings
  readonly #images: ImageStore
  readonly #log: Log
  #id = ''
  #ready: Promise<Ready> | undefined
  #isFirewallDown = false
  #isConsoleFull = false

  constructor(session: Session, settings: LibvirtSettings, images: ImageStore, log: Log) {
    this.session = session
    this.cpu = new CpuQuestions(log)
    this.#settings = settings
    this.#images = images
    this.#log = log
  }

  get id(): string {
    return this.#id
  }

  async open(id: string): Promise<void> {
    this.#id = id
    await this.session.begin()
  }

  /** The domain's handle, whether or not the domain exists. libvirt finds a domain by its UUID, which is the desktop's id. */
  domain(desktopId: DesktopId): Handle {
    const name = domainName({ installationId: this.#id, desktopId })
    return this.session.host.domains.of({ uuid: desktopId, name })
  }

  /** Sets up the pool and the network unless that was done; a failure is tried again at the next call. */
  ready(): Promise<Ready> {
    this.#ready ??= this.#setUp().catch((error: unknown) => {
      this.#ready = undefined
      throw asRefusal('the host is not ready for desktops', error)
    })
    return this.#ready
  }

  /** The connection was lost: what was set up may have changed. */
  reset(): void {
    this.#ready = undefined
  }

  /** Logged once until it works again: facts are read for each heartbeat. */
  #noteFirewall(error: unknown): void {
    const isDown = error !== undefined
    if (isDown && !this.#isFirewallDown)
      this.#log.error({ err: error, alarm: true, alarmKind: 'firewall' }, firewallDown)
    if (!isDown && this.#isFirewallDown) this.#log.info('the firewall of the guests’ network works again')
    this.#isFirewallDown = isDown
  }

  /** The same. */
  #noteConsole(err: unknown): void {
    if (!this.#isConsoleFull) this.#log.warn({ err }, 'the log of a guest’s console could not be emptied; retrying')
    this.#isConsoleFull = true
  }

  async facts(consoles: Consoles): Promise<DriverFacts> {
    const images = await this.#images.list()
    if (this.session.problem) return unusable(images, this.session.problem)
    try {
      const { kvm, versions, network } = await this.ready()
      await network?.ensureFirewall().then(
        () => this.#noteFirewall(undefined),
        (error: unknown) => this.#noteFirewall(error),
      )
      await network
        ?.ensureLimits()
        .catch((err: unknown) => this.#log.warn({ err }, 'the limits of guests could not be checked'))
      await consoles.truncateLong().then(
        () => {
          this.#isConsoleFull = false
        },
        (error: unknown) => this.#noteConsole(error),
      )
      const { disksDir, capacity } = this.#settings
      return { kvm, versions, ...(await capacityOf(this.session.host, disksDir, capacity)), images, ailment: null }
    } catch (error) {
      return unusable(images, error instanceof Refusal ? error.detail : String(error))
    }
  }

  async #setUp(): Promise<Ready> {
    const { host } = this.session
    const { disksDir, network, networkPrefix: prefix, networkAllow: allowed } = this.#settings
    const xml = await orRefuse('libvirt’s capabilities could not be read', host.capabilities())
    const capabilities =
      readCapabilities(xml) ??
      refuse('hypervisor_failed', 'QEMU for x86_64 is not installed (Debian: apt-get install qemu-system-x86)')
    const kvm = await this.#chooseKvm(capabilities)
    const pool = await ensurePool(host, this.#id, disksDir)
    const guests = await ensureNetwork(host, this.#id, { network, prefix, allowed }, this.#log)
    const [libvirt, qemu] = await Promise.all([host.libraryVersion(), host.version()])
    const versions = { libvirt: versionText(libvirt), qemu: versionText(qemu), network: guests.summary }
    if (kvm) void this.#compareCpus(capabilities)
    return { capabilities, kvm, pool, network: guests.network, versions }
  }

  /** In the background, one machine type after the other. */
  async #compareCpus({ emulator, machines }: Capabilities): Promise<void> {
    const { cpuModel } = this.#settings
    const families = new Set((await this.#images.all()).map(({ image }) => image.machine))
    for (const family of families) {
      const machine = machines.get(family) ?? family
      await this.cpu.check(this.session.host, { installationId: this.#id, type: 'kvm', emulator, machine, cpuModel })
    }
  }

  async #chooseKvm({ kvm }: Capabilities): Promise<boolean> {
    if (this.#settings.kvm === 'off') return false
    const usable = kvm && (await kvmOpens())
    if (usable || this.#settings.kvm === 'auto') return usable
    return refuse('hypervisor_failed', 'DORMOUSE_AGENT_KVM=on, but KVM is not available here; set it to auto')
  }
}

function unusable(images: string[], ailment: string): DriverFacts {
  const capacity = { memoryMiB: 0, diskGiB: 0 }
  return { kvm: false, versions: {}, processors: 0, capacity, freeDiskGiB: 0, images, ailment }
}

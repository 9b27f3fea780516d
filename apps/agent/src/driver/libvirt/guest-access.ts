// The connections to the guests of libvirt's domains: the guest agent's channel, the SSH server's address, and how busy
// the guest's processors are.
import type { DesktopId } from '@dormouse/contract'
import { statsGroup } from '@dormouse/node-libvirt'
import { CallQueue } from '../../mechanics/call-queue.ts'
import type { GuestUsage } from '../driver.ts'
import type { GuestAccess, SshAddress } from '../guest-access.ts'
import { agentCall } from './agent-call.ts'
import type { LibvirtDisks } from './disks.ts'
import { sshSocketOf, wakeSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'
import { firstForOom, QemuProcesses } from './qemu-processes.ts'

const usualForOom = 0

export class LibvirtGuests {
  readonly #installation: Installation
  readonly #disks: LibvirtDisks
  readonly #processes = new QemuProcesses()
  /** One per desktop: a guest agent takes one call at a time. */
  readonly #queues = new Map<DesktopId, CallQueue>()

  constructor(installation: Installation, disks: LibvirtDisks) {
    this.#installation = installation
    this.#disks = disks
  }

  access(desktopId: DesktopId): GuestAccess {
    const domain = () => this.#installation.domain(desktopId)
    const queue = this.#queues.get(desktopId) ?? new CallQueue()
    this.#queues.set(desktopId, queue)
    const activity = this.#processes.activity(domain().name)
    const daemon = () => domain().state()
    const agent = () => this.#installation.session.host.guestAgent(domain())
    return {
      agent: agentCall({ agent, activity, queue, daemon }),
      activity,
      sshAddress: () => this.#sshAddress(desktopId),
      wakeSocket: async () => wakeSocketOf(await orRefuse('the domain could not be read', domain().xml())),
    }
  }

  /** Whether the guest's process was stopped from outside. */
  frozen(desktopId: DesktopId): boolean {
    return this.#processes.activity(this.#installation.domain(desktopId).name).frozen()
  }

  /** Under memory pressure the kernel ends this process before others, or no longer does. */
  async preferForOom(desktopId: DesktopId, preferred: boolean): Promise<void> {
    await this.#processes.setOomScore(this.#installation.domain(desktopId).name, preferred ? firstForOom : usualForOom)
  }

  residentMiB(desktopId: DesktopId): Promise<number | undefined> {
    return this.#processes.residentMiB(this.#installation.domain(desktopId).name)
  }

  /** The processors' time is the kernel's, the network's bytes are libvirt's. */
  async usage(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, GuestUsage>> {
    const bytes = await this.#networkBytes()
    const read = async (desktopId: DesktopId) => {
      const processorMs = await this.#processes.processorMs(this.#installation.domain(desktopId).name)
      return [desktopId, { processorMs, networkBytes: bytes.get(desktopId) }] as const
    }
    return new Map(await Promise.all(desktopIds.map(read)))
  }

  /** One call for all domains, which asks no QEMU. */
  async #networkBytes(): Promise<Map<DesktopId, number>> {
    const { domains } = this.#installation.session.host
    const all = await orRefuse(
      'the network traffic could not be read',
      domains.stats({ groups: statsGroup.interface, nowait: true }),
    )
    return new Map(all.map(({ domain, stats }) => [domain.uuid, bytesOf(stats)]))
  }

  /** Calls that are still queued end with their process, and hold up none to the next. */
  release(desktopId: DesktopId): void {
    this.#queues.delete(desktopId)
  }

  /** The port if the domain has one, else its network address if its image has an SSH server there. */
  async #sshAddress(desktopId: DesktopId): Promise<SshAddress | undefined> {
    const xml = await orRefuse('the domain could not be read', this.#installation.domain(desktopId).xml())
    const path = sshSocketOf(xml)
    if (path) return { path }
    const { network } = await this.#installation.ready()
    if (!network || (await this.#disks.imageOf(desktopId)).ssh !== 'network') return undefined
    return network.sshAddress(desktopId, xml)
  }
}

/** Of all its network devices. */
const bytesOf = (stats: Record<string, unknown>): number =>
  Object.entries(stats).reduce(
    (sum, [name, value]) => (/^net\.\d+\.[rt]x\.bytes$/.test(name) ? sum + Number(value) : sum),
    0,
  )

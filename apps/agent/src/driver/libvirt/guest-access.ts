// The connections to the guests of libvirt's domains: the guest agent's channel, the sockets of their ports, and how busy
// the guest's processors are.
import { type DesktopId, refuse } from '@dormouse/contract'
import { CallQueue } from '../../mechanics/call-queue.ts'
import type { GuestUsage } from '../driver.ts'
import type { GuestAccess } from '../guest-access.ts'
import { agentCall } from './agent-call.ts'
import { DomainStatistics } from './domain-statistics.ts'
import { sshSocketOf, wakeSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'
import { firstForOom, QemuProcesses } from './qemu-processes.ts'

const usualForOom = 0

export class LibvirtGuests {
  readonly #installation: Installation
  readonly #processes = new QemuProcesses()
  readonly #statistics: DomainStatistics
  /** One per desktop: a guest agent takes one call at a time. */
  readonly #queues = new Map<DesktopId, CallQueue>()

  constructor(installation: Installation) {
    this.#installation = installation
    this.#statistics = new DomainStatistics(installation, (desktopId) => this.frozen(desktopId))
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
      sshSocket: () => this.#socket(desktopId, sshSocketOf),
      wakeSocket: () => this.#socket(desktopId, wakeSocketOf),
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

  /** The processors' time is the kernel's, the rest is libvirt's. */
  async usage(desktopIds: readonly DesktopId[], { whole = false } = {}): Promise<Map<DesktopId, GuestUsage>> {
    const counted = await this.#statistics.read(desktopIds, whole)
    const read = async (desktopId: DesktopId) => {
      const { ran, waited } = (await this.#processes.processorMs(this.#installation.domain(desktopId).name)) ?? {}
      const { receivedBytes, sentBytes, ...others } = counted.get(desktopId) ?? {}
      const used: GuestUsage = {
        ...{ processorMs: ran === undefined ? undefined : ran + waited!, ranMs: ran },
        networkBytes: receivedBytes === undefined ? undefined : receivedBytes + (sentBytes ?? 0),
        ...{ receivedBytes, sentBytes, ...others },
      }
      return [desktopId, used] as const
    }
    return new Map(await Promise.all(desktopIds.map(read)))
  }

  /** Calls that are still queued end with their process, and delay none of the next one's. */
  release(desktopId: DesktopId): void {
    this.#queues.delete(desktopId)
    this.#statistics.release(desktopId)
  }

  async #socket(desktopId: DesktopId, socketOf: (xml: string) => string | undefined): Promise<string> {
    const xml = await orRefuse('the domain could not be read', this.#installation.domain(desktopId).xml())
    return socketOf(xml) ?? refuse('guest_unavailable', 'the desktop’s domain has no port for its guest')
  }
}

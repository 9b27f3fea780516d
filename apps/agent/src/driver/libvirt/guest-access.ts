// The connections to the guests of libvirt's domains: the guest agent's channel, the sockets of their ports, and how busy
// the guest's processors are.
import { type DesktopId, refuse } from '@dormouse/contract'
import { statsGroup } from '@dormouse/node-libvirt'
import { CallQueue } from '../../mechanics/call-queue.ts'
import type { GuestUsage } from '../driver.ts'
import type { GuestAccess } from '../guest-access.ts'
import { agentCall } from './agent-call.ts'
import { sshSocketOf, wakeSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'
import { firstForOom, QemuProcesses } from './qemu-processes.ts'

const usualForOom = 0

export class LibvirtGuests {
  readonly #installation: Installation
  readonly #processes = new QemuProcesses()
  /** One per desktop: a guest agent takes one call at a time. */
  readonly #queues = new Map<DesktopId, CallQueue>()

  constructor(installation: Installation) {
    this.#installation = installation
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

  /** The processors' time is the kernel's, the network's bytes are libvirt's. */
  async usage(desktopIds: readonly DesktopId[]): Promise<Map<DesktopId, GuestUsage>> {
    const bytes = await this.#networkBytes()
    const read = async (desktopId: DesktopId) => {
      const processorMs = await this.#processes.processorMs(this.#installation.domain(desktopId).name)
      return [desktopId, { processorMs, networkBytes: bytes.get(desktopId) }] as const
    }
    return new Map(await Promise.all(desktopIds.map(read)))
  }

  /** One call for all domains, which queries no QEMU. */
  async #networkBytes(): Promise<Map<DesktopId, number>> {
    const { domains } = this.#installation.session.host
    const all = await orRefuse(
      'the network traffic could not be read',
      domains.stats({ groups: statsGroup.interface, nowait: true }),
    )
    return new Map(all.map(({ domain, stats }) => [domain.uuid, bytesOf(stats)]))
  }

  /** Calls that are still queued end with their process, and delay none of the next one's. */
  release(desktopId: DesktopId): void {
    this.#queues.delete(desktopId)
  }

  async #socket(desktopId: DesktopId, socketOf: (xml: string) => string | undefined): Promise<string> {
    const xml = await orRefuse('the domain could not be read', this.#installation.domain(desktopId).xml())
    return socketOf(xml) ?? refuse('guest_unavailable', 'the desktop’s domain has no port for its guest')
  }
}

/** The bytes of all its network devices. */
const bytesOf = (stats: Record<string, unknown>): number =>
  Object.entries(stats).reduce(
    (sum, [name, value]) => (/^net\.\d+\.[rt]x\.bytes$/.test(name) ? sum + Number(value) : sum),
    0,
  )

// The connections to the guests of libvirt's domains: the guest agent's channel, the SSH server's address, and how busy
// the guest's processors are.
import type { DesktopId } from '@dormouse/contract'
import { CallQueue } from '../../mechanics/call-queue.ts'
import type { GuestAccess, SshAddress } from '../guest-access.ts'
import { agentCall } from './agent-call.ts'
import type { LibvirtDisks } from './disks.ts'
import { sshSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import type { Installation } from './installation.ts'
import { QemuProcesses } from './qemu-processes.ts'

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
    }
  }

  /** Whether the guest's process was stopped from outside. */
  frozen(desktopId: DesktopId): boolean {
    return this.#processes.activity(this.#installation.domain(desktopId).name).frozen()
  }

  /** Calls that are still queued end with their process, and hold up none to the next. */
  release(desktopId: DesktopId): void {
    this.#queues.delete(desktopId)
  }

  /** The port where the domain has one, else its network address where its image has an SSH server there. */
  async #sshAddress(desktopId: DesktopId): Promise<SshAddress | undefined> {
    const xml = await orRefuse('the domain could not be read', this.#installation.domain(desktopId).xml())
    const path = sshSocketOf(xml)
    if (path) return { path }
    const { network } = await this.#installation.ready()
    if (!network || (await this.#disks.imageOf(desktopId)).ssh !== 'network') return undefined
    return network.sshAddress(desktopId, xml)
  }
}

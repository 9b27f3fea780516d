// The screens of libvirt's domains: QEMU's VNC on a unix socket that only the agent may open.
import type { Duplex } from 'node:stream'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import { openSocket } from '../../mechanics/open-socket.ts'
import { vncSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'

const dialMs = 5_000

/** Connects to the domain's VNC; QEMU greets first. */
export async function openScreen(domain: Domain): Promise<Duplex> {
  const path = vncSocketOf(await orRefuse('the desktop’s screen could not be found', domain.xml()))
  if (!path) return refuse('hypervisor_failed', 'the desktop has no screen that can be opened')
  return openSocket({ path }, dialMs, () => new Refusal('hypervisor_failed', 'the desktop’s screen does not answer'))
}

/** The connections to screens: a process that stays while its desktop sleeps does not close them. */
export class OpenScreens {
  readonly #open = new Map<DesktopId, Set<Duplex>>()

  async keep(desktopId: DesktopId, opening: Promise<Duplex>): Promise<Duplex> {
    const screen = await opening
    const some = this.#open.get(desktopId) ?? new Set()
    this.#open.set(desktopId, some.add(screen))
    screen.once('close', () => {
      some.delete(screen)
      if (some.size === 0 && this.#open.get(desktopId) === some) this.#open.delete(desktopId)
    })
    return screen
  }

  close(desktopId: DesktopId): void {
    for (const screen of this.#open.get(desktopId) ?? []) screen.destroy()
  }
}

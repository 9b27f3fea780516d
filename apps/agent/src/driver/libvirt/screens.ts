// The screens of libvirt's domains: QEMU's VNC on a unix socket that only the agent may open, and pictures of it.
import type { Duplex, Readable } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Domain } from '@dormouse/node-libvirt'
import { openSocket } from '../../mechanics/open-socket.ts'
import { readPpm, toPng } from '../picture.ts'
import { vncSocketOf } from './domain-xml.ts'
import { orRefuse } from './failures.ts'

const dialMs = 5_000
const maxPictureBytes = 256 * 1024 * 1024

/** Connects to the domain's VNC; QEMU greets first. */
export async function openScreen(domain: Domain): Promise<Duplex> {
  const path = vncSocketOf(await orRefuse('the desktop’s screen could not be found', domain.xml()))
  if (!path) return refuse('hypervisor_failed', 'the desktop has no screen that can be opened')
  return openSocket({ path }, dialMs, () => new Refusal('hypervisor_failed', 'the desktop’s screen does not answer'))
}

/** The domain's screen now, as PNG whatever format QEMU returns. */
export async function takePicture(domain: Domain): Promise<Buffer> {
  const { mime, stream } = await orRefuse('the screen could not be captured', domain.screenshot())
  const bytes = await orRefuse('the picture of the screen is incomplete', buffer(bounded(stream)))
  return mime === 'image/png' ? bytes : toPng(readPpm(bytes))
}

/** QEMU's picture may be endless, so its length is limited. */
async function* bounded(stream: Readable): AsyncGenerator<Buffer> {
  let bytes = 0
  for await (const chunk of stream as AsyncIterable<Buffer>) {
    bytes += chunk.length
    if (bytes > maxPictureBytes)
      refuse('hypervisor_failed', `the picture of the screen is larger than ${maxPictureBytes} bytes`)
    yield chunk
  }
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

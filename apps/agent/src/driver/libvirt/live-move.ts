// One live move at this host's libvirt: the calls of its side, in their order, on a connection of their own. The cookies go to
// the other host as they are; the XML that comes from there is checked and gets this host's parts.
import type { Duplex } from 'node:stream'
import { type DesktopId, type DesktopSpec, Refusal, refuse } from '@dormouse/contract'
import { type IncomingMigration, migrateFlag, type OutgoingMigration } from '@dormouse/node-libvirt'
import { z } from 'zod'
import { syncPath } from '../../mechanics/durable-file.ts'
import { openSocket } from '../../mechanics/open-socket.ts'
import type { Mark } from '../mark.ts'
import type { Arrival, Entering, GiveStream, Leaving, MoveProgress } from '../moves.ts'
import { type BootDeps, hostPartsOf } from './boot.ts'
import { offerClipboard, withoutClipboard } from './clipboard.ts'
import { hasClipboard, isEmulated } from './domain-xml.ts'
import { orRefuse } from './failures.ts'
import {
  confinedPlace,
  listenForStreams,
  type MoveFolder,
  type MoveStream,
  moveStreams,
  openMoveFolder,
} from './move-sockets.ts'
import { hasInterface } from './network-xml.ts'
import { requirePortable, withHostParts } from './portable-xml.ts'
import { withoutTuning } from './tuning.ts'

export interface LiveMoveDeps extends BootDeps {
  movesDir: string
  /** The guest's connections on this host are of no use any more. */
  interrupted: (desktopId: DesktopId) => void
}

const handoffSchema = z.object({ cookie: z.base64(), xml: z.string().optional() })
const flags = migrateFlag.live | migrateFlag.paused | migrateFlag.nonSharedInc
const dialMs = 5_000

const write = (cookie: Uint8Array, xml?: string): string =>
  JSON.stringify({ cookie: Buffer.from(cookie).toString('base64'), ...(xml && { xml }) })

function read(handoff: string): { cookie: Uint8Array; xml?: string | undefined } {
  const parsed = handoffSchema.safeParse(JSON.parse(handoff))
  if (!parsed.success) return refuse('hypervisor_failed', 'the other host’s handoff cannot be read')
  return { cookie: Buffer.from(parsed.data.cookie, 'base64'), xml: parsed.data.xml }
}

const routeIn = (folder: MoveFolder, name: string) => {
  return { flags, name, memorySocket: folder.path('memory'), disksSocket: folder.path('disk') }
}

async function folderOf(
  { installation, movesDir }: LiveMoveDeps,
  desktopId: DesktopId,
  listener: 'agent' | 'qemu',
): Promise<MoveFolder> {
  const { owner, hasAppArmor } = (await installation.ready()).capabilities
  const { name } = installation.domain(desktopId)
  const place = hasAppArmor ? confinedPlace(name) : { base: movesDir, suffix: '' }
  return openMoveFolder(place, desktopId, owner, listener)
}

/** Holds the domain's job. QEMU before 10.1 cannot move a guest with a clipboard's port, so that is unplugged until it is over. */
export async function leave(deps: LiveMoveDeps, desktopId: DesktopId): Promise<Leaving> {
  const domain = deps.installation.domain(desktopId)
  const xml = await orRefuse('the desktop could not be read', domain.xml())
  const folder = await folderOf(deps, desktopId, 'agent')
  let outgoing: OutgoingMigration | undefined
  let handoff = ''
  await withoutClipboard(domain, deps.log, async () => {
    const { host } = deps.installation.session
    const opened = await orRefuse('the move could not begin', host.openOutgoing(domain, routeIn(folder, domain.name)))
    try {
      const begun = await orRefuse('the move could not begin', opened.begin())
      // A host of release 0.1 refuses a domain with limits.
      handoff = write(begun.cookie, withoutTuning(begun.xml))
      outgoing = opened
    } catch (error) {
      opened.close()
      throw error
    }
  })
  const guest = { hadClipboard: hasClipboard(xml), isEmulated: isEmulated(xml) }
  return new LibvirtLeaving(deps, { desktopId, folder, handoff, outgoing: outgoing!, ...guest })
}

interface LeavingParts {
  desktopId: DesktopId
  folder: MoveFolder
  handoff: string
  hadClipboard: boolean
  isEmulated: boolean
  outgoing: OutgoingMigration
}

class LibvirtLeaving implements Leaving {
  readonly #deps: LiveMoveDeps
  readonly #parts: LeavingParts

  constructor(deps: LiveMoveDeps, parts: LeavingParts) {
    this.#deps = deps
    this.#parts = parts
  }

  get handoff(): string {
    return this.#parts.handoff
  }

  async send(handoff: string, give: GiveStream, signal: AbortSignal): Promise<string> {
    const { outgoing, folder, desktopId } = this.#parts
    signal.throwIfAborted()
    using _listening = await listenForStreams(folder, give)
    // Closing the streams ends the call at once; their owner does that. An abort alone may never end it.
    const abort = () => void this.#domain.abortJob().catch(() => undefined)
    signal.addEventListener('abort', abort, { once: true })
    try {
      if (this.#parts.isEmulated) await this.#pause()
      const sent = await orRefuse('the desktop could not be sent', outgoing.perform(read(handoff).cookie))
      this.#deps.interrupted(desktopId)
      return write(sent)
    } catch (error) {
      await this.#offerClipboard()
      if (signal.aborted) throw Object.assign(new Refusal('hypervisor_failed', 'the move was cut'), { cause: error })
      throw error
    } finally {
      signal.removeEventListener('abort', abort)
    }
  }

  /**
   * QEMU before 9.0 loses writes of an emulated guest that runs while its memory is sent: the guest crashes on the new host,
   * or reboots. libvirt resumes it if the job fails.
   */
  async #pause(): Promise<void> {
    await orRefuse('the desktop could not be paused', this.#domain.suspend())
  }

  async progress(): Promise<MoveProgress | undefined> {
    const { type, dataProcessedBytes, dataTotalBytes, memProcessedBytes, memTotalBytes } = await this.#domain.jobInfo()
    if (type !== 'unbounded') return undefined
    const memoryRounds = memTotalBytes === 0 ? 0 : memProcessedBytes / memTotalBytes
    return { doneBytes: dataProcessedBytes, totalBytes: dataTotalBytes, memoryRounds }
  }

  async confirm(handoff: string): Promise<void> {
    await orRefuse('the move could not be confirmed', this.#parts.outgoing.confirm(read(handoff).cookie))
    this.close()
  }

  async cancel(): Promise<void> {
    try {
      await orRefuse('the move could not be cancelled', this.#parts.outgoing.confirm(undefined, { cancelled: true }))
    } finally {
      this.close()
      await this.#offerClipboard()
    }
  }

  close(): void {
    this.#parts.outgoing.close()
    void this.#parts.folder.remove().catch(() => undefined)
  }

  get #domain() {
    return this.#deps.installation.domain(this.#parts.desktopId)
  }

  async #offerClipboard(): Promise<void> {
    if (this.#parts.hadClipboard) await offerClipboard(this.#domain, this.#deps.log)
  }
}

/** Makes the disk again, and a QEMU that waits for what comes. */
export async function enter(
  deps: LiveMoveDeps,
  { spec, mark, imageDigest }: Arrival,
  handoff: string,
): Promise<Entering> {
  const { installation, disks } = deps
  const { cookie, xml } = read(handoff)
  const { kvm, network } = await installation.ready()
  const image = await disks.imageOfDigest(imageDigest)
  const parts = await hostPartsOf(deps, image, mark)
  const own = withHostParts(portable(xml, spec, mark), parts, network?.name)
  if (!network && hasInterface(own)) refuse('hypervisor_failed', 'the desktop needs a network and this host has none')
  const attached = network ? await network.attach(mark.desktopId, own) : own
  await disks.makeAgain(mark.desktopId, spec, imageDigest)
  const { name } = installation.domain(mark.desktopId)
  const folder = await folderOf(deps, mark.desktopId, 'qemu')
  const route = routeIn(folder, name)
  const incoming = await orRefuse('the move could not begin', installation.session.host.openIncoming(route))
  try {
    const shortened = installation.cpu.shorten(attached, kvm)
    const prepared = await orRefuse('this host cannot take the desktop', incoming.prepare(shortened, cookie))
    return new LibvirtEntering(deps, { mark, folder, incoming, handoff: write(prepared) })
  } catch (error) {
    incoming.close()
    await folder.remove()
    throw error
  }
}

/** The XML of the other host, if it has nothing but what a desktop has. */
export function portable(xml: string | undefined, spec: DesktopSpec, mark: Mark): string {
  try {
    requirePortable(xml ?? '', spec, mark)
    return xml ?? ''
  } catch (error) {
    return refuse('hypervisor_failed', `the other host’s domain cannot be taken: ${(error as Error).message}`)
  }
}

interface EnteringParts {
  mark: Mark
  folder: MoveFolder
  incoming: IncomingMigration
  handoff: string
}

class LibvirtEntering implements Entering {
  readonly #deps: LiveMoveDeps
  readonly #parts: EnteringParts

  constructor(deps: LiveMoveDeps, parts: EnteringParts) {
    this.#deps = deps
    this.#parts = parts
  }

  get handoff(): string {
    return this.#parts.handoff
  }

  async open(name: string): Promise<Duplex> {
    const stream = moveStreams.find((known): known is MoveStream => known === name)
    if (!stream) return refuse('hypervisor_failed', `a move has no stream "${name.slice(0, 20)}"`)
    const to = { path: this.#parts.folder.path(stream), allowHalfOpen: true }
    return openSocket(to, dialMs, () => new Refusal('hypervisor_failed', 'QEMU does not take the move any more'))
  }

  async finish(handoff: string): Promise<string> {
    const { incoming, mark } = this.#parts
    const finished = await orRefuse('the desktop did not arrive', incoming.finish(read(handoff).cookie))
    await syncPath(this.#deps.disks.path(mark.desktopId))
    return write(finished)
  }

  close(): void {
    this.#parts.incoming.close()
    void this.#parts.folder.remove().catch(() => undefined)
  }
}

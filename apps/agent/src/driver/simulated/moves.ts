// A simulated hypervisor's part in moves: memory and disk travel as their JSON with an archive of their files, over streams of the same names as real ones.
import { mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { buffer, text } from 'node:stream/consumers'
import { type DesktopId, type MoveTraits, refuse } from '@dormouse/contract'
import type { Mark } from '../mark.ts'
import type { Arrival, Entering, GiveStream, Leaving, Moves } from '../moves.ts'
import type { GuestContainers } from './containers.ts'
import type { SimulatedFaults } from './faults.ts'
import { packed, unpacked } from './packed.ts'
import { readSaved } from './saved-image.ts'
import { type JsonFolder, type SimulatedDisk, type SimulatedDomain, simulatedDisk, simulatedDomain } from './store.ts'

interface Host {
  folder: string
  domains: JsonFolder<SimulatedDomain>
  disks: JsonFolder<SimulatedDisk>
  containers: GuestContainers
  faults: SimulatedFaults
  images: () => Promise<string[]>
  pause: (desktopId: DesktopId) => SimulatedDomain
  resume: (desktopId: DesktopId) => Promise<void>
  end: (desktopId: DesktopId, reason: string) => void
}

const version = '1'
const digestOf = (imageVersion: string): string => `simulated ${imageVersion}`

export class SimulatedMoves implements Moves {
  readonly #host: Host

  constructor(host: Host) {
    this.#host = host
  }

  async traits(desktopId: DesktopId, memoryPath: string | undefined): Promise<Omit<MoveTraits, 'memoryBytes'>> {
    const disk = this.#disk(desktopId)
    // A process beside a saved memory is a copy of it.
    const runs = !memoryPath && this.#host.domains.read(desktopId) !== undefined
    return {
      kind: runs ? 'live' : 'cold',
      driver: 'simulated',
      kvm: false,
      hypervisor: version,
      emulator: version,
      machine: 'simulated',
      network: false,
      cpu: runs || memoryPath ? 'simulated' : null,
      imageDigest: digestOf(disk.spec.imageVersion),
      diskBytes: await this.diskBytes(desktopId),
    }
  }

  async hasImage(imageDigest: string): Promise<boolean> {
    const images = await this.#host.images()
    return images.includes('*') || images.some((image) => digestOf(image) === imageDigest)
  }

  async misfit(): Promise<null> {
    await this.#host.faults.enter('misfit')
    return null
  }

  async leave(desktopId: DesktopId): Promise<Leaving> {
    await this.#host.faults.enter('leave')
    const { domains } = this.#host
    if (domains.read(desktopId)?.state !== 'running') refuse('hypervisor_failed', 'the simulated guest does not run')
    return {
      handoff: 'simulated',
      send: (_handoff, give, signal) => this.#send(desktopId, give, signal),
      progress: async () => undefined,
      confirm: async () => this.#host.end(desktopId, 'migrated'),
      cancel: () => this.#host.resume(desktopId),
      close: () => undefined,
    }
  }

  async #send(desktopId: DesktopId, give: GiveStream, signal: AbortSignal): Promise<string> {
    const { faults, pause, resume, domains, containers } = this.#host
    try {
      await faults.enter('sendMove', signal)
      const domain = pause(desktopId)
      await this.#give('disk', await this.#packDisk(desktopId), give, signal)
      await this.#give('memory', packed(domain, await containers.packMemory(desktopId)), give, signal)
      return 'simulated'
    } catch (error) {
      if (domains.read(desktopId)) await resume(desktopId)
      throw signal.aborted || !(error instanceof Error) ? refuseCut() : error
    }
  }

  /** Returns when the other side has taken all of it and has said so. */
  async #give(name: string, content: Buffer, give: GiveStream, signal: AbortSignal): Promise<void> {
    const [near, inside] = duplexPair()
    const cut = Promise.withResolvers<never>()
    const stop = () => cut.reject(signal.reason)
    if (signal.aborted) stop()
    signal.addEventListener('abort', stop, { once: true })
    give(name, inside)
    near.on('error', stop)
    near.end(content)
    try {
      const taken = await Promise.race([text(near), cut.promise])
      if (taken !== 'taken') refuseCut()
    } finally {
      signal.removeEventListener('abort', stop)
      near.destroy()
    }
  }

  async enter(arrival: Arrival): Promise<Entering> {
    const { mark, imageDigest, spec } = arrival
    const { faults, domains, disks, containers } = this.#host
    await faults.enter('enter')
    if (domains.read(mark.desktopId)) refuse('hypervisor_failed', 'the domain exists already')
    if (digestOf(spec.imageVersion) !== imageDigest) refuse('image_unavailable', 'the image is another one')
    await this.#requireImage(imageDigest)
    const parts: { disk?: Part<SimulatedDisk>; memory?: Part<SimulatedDomain> } = {}
    const closing = new AbortController()
    return {
      handoff: 'simulated',
      open: async (name) => {
        if (name === 'disk') return take((part) => (parts.disk = { ...part, head: simulatedDisk.parse(part.head) }))
        if (name === 'memory')
          return take((part) => (parts.memory = { ...part, head: simulatedDomain.parse(part.head) }))
        return refuse('hypervisor_failed', `a simulated guest has no stream "${name}"`)
      },
      finish: async () => {
        await faults.enter('finishMove', closing.signal)
        const { disk, memory } = parts
        if (closing.signal.aborted || !disk || !memory)
          return refuse('hypervisor_failed', 'the simulated guest has not arrived')
        requireSize(disk.head, { ...arrival, furnished: true })
        containers.restore(mark.desktopId, memory.archive)
        await containers.unpackDisk(mark.desktopId, disk.archive)
        disks.write(mark.desktopId, disk.head)
        domains.write(mark.desktopId, { ...memory.head, mark })
        return 'simulated'
      },
      close: () => {
        closing.abort(new Error('the move was ended'))
      },
    }
  }

  async furnish(): Promise<void> {}
  async forget(desktopId: DesktopId): Promise<void> {
    await rm(this.diskPath(desktopId), { force: true })
    await rm(await this.arrivingDiskPath(desktopId), { force: true })
  }

  diskPath(desktopId: DesktopId): string {
    return join(this.#host.folder, 'leaving', desktopId)
  }

  /** Writes the disk's file anew. */
  async diskBytes(desktopId: DesktopId): Promise<number> {
    const bytes = await this.#packDisk(desktopId)
    await mkdir(join(this.#host.folder, 'leaving'), { recursive: true })
    await writeFile(this.diskPath(desktopId), bytes)
    return bytes.length
  }

  async #packDisk(desktopId: DesktopId): Promise<Buffer> {
    return packed(this.#disk(desktopId), await this.#host.containers.packDisk(desktopId))
  }

  async arrivingDiskPath(desktopId: DesktopId): Promise<string> {
    await mkdir(join(this.#host.folder, 'arriving'), { recursive: true })
    return join(this.#host.folder, 'arriving', desktopId)
  }

  async adoptDisk(arrival: Arrival): Promise<void> {
    const { desktopId } = arrival.mark
    const { faults, disks } = this.#host
    await faults.enter('adoptDisk')
    if (!disks.read(desktopId)) await this.replaceDisk(arrival)
  }

  async replaceDisk(arrival: Arrival): Promise<void> {
    const { desktopId } = arrival.mark
    const { disks, containers } = this.#host
    await this.#requireImage(arrival.imageDigest)
    const { head, archive } = unpacked(await readFile(await this.arrivingDiskPath(desktopId)).catch(refuseMissing))
    const disk = simulatedDisk.parse(head)
    requireSize(disk, arrival)
    // A container that belongs to an older memory uses the older disk.
    containers.end(desktopId)
    await containers.unpackDisk(desktopId, archive)
    disks.write(desktopId, disk)
    await this.forget(desktopId)
  }

  async requireHarmless({ mark }: { mark: Mark }, memoryPath: string): Promise<void> {
    if (readSaved(memoryPath).domain.mark.desktopId !== mark.desktopId) {
      refuse('hypervisor_failed', 'the saved memory belongs to another desktop')
    }
  }

  async #requireImage(imageDigest: string): Promise<void> {
    if (!(await this.hasImage(imageDigest)))
      refuse('image_unavailable', 'the host does not have the image of the desktop’s disk')
  }

  #disk(desktopId: DesktopId): SimulatedDisk {
    return this.#host.disks.read(desktopId) ?? refuseMissing()
  }
}

interface Part<T> {
  head: T
  archive: Buffer
}

/** An end that reads everything, and then says that it has. */
function take(keep: (part: Part<unknown>) => void): Duplex {
  const [outside, inside] = duplexPair()
  buffer(inside)
    .then((content) => {
      keep(unpacked(content))
      inside.end('taken')
    })
    .catch((error: Error) => inside.destroy(error))
  inside.on('error', () => undefined)
  return outside
}

/** Memory and disk that are sent together need a disk of the same size on the new host. */
function requireSize({ spec: { diskGiB } }: SimulatedDisk, { spec, furnished }: Arrival): void {
  const isRight = furnished ? diskGiB === spec.diskGiB : diskGiB <= spec.diskGiB
  if (!isRight) refuse('hypervisor_failed', 'the disk from the other host cannot be used: it has another size')
}

const refuseMissing = (): never => refuse('disk_missing', 'the simulated disk is not there')
const refuseCut = (): never => refuse('hypervisor_failed', 'the move was cut; the guest runs on')

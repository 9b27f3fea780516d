// What all hosts have free, as it was a moment ago: chooses a host without reading every reservation for each placement. The
// choice is confirmed behind the host's lock, so an outdated figure costs another try, and nothing else.
import { hasImage } from './image-fit.ts'
import { canTake, chooseHost } from './placement.ts'
import type { Candidate, PlacementRequest } from './store.ts'

const trustMs = 500

type Read = (hostIds: string[], desktopId: string) => Promise<Candidate[]>

export class HostOverview {
  readonly #read: Read
  #hosts = new Map<string, Candidate>()
  #trustedUntil = 0

  constructor(read: Read) {
    this.#read = read
  }

  forget(): void {
    this.#trustedUntil = 0
  }

  /** The best of these hosts for the desktop. Refuses only by figures that were just read. */
  async choose(able: string[], request: PlacementRequest): Promise<string> {
    return this.#known(able, request) ?? this.#take(await this.#reread(able, request), request)
  }

  #known(able: string[], request: PlacementRequest): string | undefined {
    if (performance.now() > this.#trustedUntil) return undefined
    const known = able.map((id) => this.#hosts.get(id)).filter((host) => host !== undefined)
    if (known.length < able.length) return undefined
    try {
      return this.#take(known, request)
    } catch {
      return undefined
    }
  }

  async #reread(able: string[], request: PlacementRequest): Promise<Candidate[]> {
    const hosts = await this.#read(able, request.desktopId)
    this.#hosts = new Map(hosts.map((host) => [host.id, host]))
    this.#trustedUntil = performance.now() + trustMs
    return hosts
  }

  /** Counts what it gives away, so that desktops that are placed together are spread. */
  #take(hosts: Candidate[], request: PlacementRequest): string {
    let host: Candidate | undefined
    for (const each of hosts) if (canTake(each, request) && (!host || isBetter(each, host, request))) host = each
    host ??= chooseHost(hosts, request)
    host.heldMemoryMiB += request.memoryMiB
    host.heldVcpus += request.vcpus
    host.heldDiskGiB += request.diskGiB
    return host.id
  }
}

/** One that is not quarantined; then one that has the image before one that fetches it; then the one with more memory. */
function isBetter(a: Candidate, b: Candidate, request: PlacementRequest): boolean {
  if (a.quarantined !== b.quarantined) return b.quarantined
  const order = Number(hasImage(a, request)) - Number(hasImage(b, request))
  return order > 0 || (order === 0 && freeMemoryMiB(a) > freeMemoryMiB(b))
}

const freeMemoryMiB = ({ memoryMiB, heldMemoryMiB }: Candidate) => memoryMiB - heldMemoryMiB

// What all hosts have free, as it was a moment ago: chooses a host without reading every reservation for each placement. The
// choice is confirmed behind the host's lock, so an outdated figure costs another try, and nothing else.
import { hasImage } from './image-fit.ts'
import { canTake, chooseHost } from './placement.ts'
import type { Candidate, PlacementRequest } from './store.ts'

const trustMs = 500

type Read = (hostIds: string[], desktopId: string) => Promise<Candidate[]>

export interface Choice {
  hostId: string
  request: PlacementRequest
}

export class HostOverview {
  readonly #read: Read
  readonly #inFlight = new Set<Choice>()
  #hosts = new Map<string, Candidate>()
  #trustedUntil = 0

  constructor(read: Read) {
    this.#read = read
  }

  forget(): void {
    this.#trustedUntil = 0
  }

  /** The best of these hosts for the desktop. Refuses only by figures that were just read. End the choice when it is stored. */
  async choose(able: string[], request: PlacementRequest): Promise<Choice> {
    const known = this.#known(able, request)
    if (known) return known
    const begun = [...this.#inFlight]
    const read = await this.#read(able, request.desktopId)
    const expected = new Map(read.map((host) => [host.id, { ...host }]))
    // What was chosen and is not stored yet. Some of it may have been read, too: that costs evenness for a moment.
    for (const choice of new Set([...begun, ...this.#inFlight])) count(expected.get(choice.hostId), choice.request)
    this.#hosts = expected
    this.#trustedUntil = performance.now() + trustMs
    try {
      return this.#take([...expected.values()], request)
    } catch {
      return this.#take(read, request)
    }
  }

  /** The choice is stored, or was given up. */
  end(choice: Choice): void {
    this.#inFlight.delete(choice)
  }

  #known(able: string[], request: PlacementRequest): Choice | undefined {
    if (performance.now() > this.#trustedUntil) return undefined
    const known = able.map((id) => this.#hosts.get(id)).filter((host) => host !== undefined)
    if (known.length < able.length) return undefined
    try {
      return this.#take(known, request)
    } catch {
      return undefined
    }
  }

  /** Counts what it gives away, so that desktops that are placed together are spread. */
  #take(hosts: Candidate[], request: PlacementRequest): Choice {
    let host: Candidate | undefined
    for (const each of hosts) if (canTake(each, request) && (!host || isBetter(each, host, request))) host = each
    host ??= chooseHost(hosts, request)
    count(host, request)
    const choice = { hostId: host.id, request }
    this.#inFlight.add(choice)
    return choice
  }
}

function count(host: Candidate | undefined, { memoryMiB, vcpus, diskGiB }: PlacementRequest): void {
  if (!host) return
  host.heldMemoryMiB += memoryMiB
  host.heldVcpus += vcpus
  host.heldDiskGiB += diskGiB
}

/**
 * A host that is not quarantined comes first; then one that has the image before one that fetches it; then the one with more
 * memory.
 */
function isBetter(a: Candidate, b: Candidate, request: PlacementRequest): boolean {
  if (a.quarantined !== b.quarantined) return b.quarantined
  const order = Number(hasImage(a, request)) - Number(hasImage(b, request))
  return order > 0 || (order === 0 && freeMemoryMiB(a) > freeMemoryMiB(b))
}

const freeMemoryMiB = ({ memoryMiB, heldMemoryMiB }: Candidate) => memoryMiB - heldMemoryMiB

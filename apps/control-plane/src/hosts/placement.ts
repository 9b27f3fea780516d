// Chooses the host of a desktop. Pure: decides on what the store has read, and names the limit that prevents it.
import { type RefusalCode, refusalWithCause } from '@dormouse/contract'
import { canHaveImage } from './image-fit.ts'
import type { Candidate, PlacementRequest } from './store.ts'

/** Disks grow as they are written. A host with less free disk gets no new desktop. */
const leastFreeDiskGiB = 1

/** Names and figures of hosts go into the cause, which only operators see. */
function because(code: RefusalCode, cause: string): never {
  throw refusalWithCause(code, cause)
}

/** The first candidate that can take the desktop. Refuses with the reason that is easiest to remedy. */
export function chooseHost(all: Candidate[], request: PlacementRequest): Candidate {
  const { leaving } = request
  const candidates = leaving ? all.filter(({ id }) => !leaving.not.includes(id)) : all
  if (candidates.length === 0)
    return because(
      'no_host',
      leaving ? 'no other host is linked' : 'no host is linked; install an agent or wait until one is back',
    )
  const healthy = candidates.filter((host) => host.ailment === null && !host.silent)
  if (healthy.length === 0) return because(codeOf(candidates), `no host can take desktops: ${ailments(candidates)}`)
  const uncordoned = healthy.filter((host) => isOpen(host, request))
  if (uncordoned.length === 0) return because('no_host', `no host can take desktops: ${ailments(candidates)}`)
  const allowed = uncordoned.filter((host) => lets(host, request))
  // A relay is slow: hosts with an address come first.
  const open = leaving ? allowed.toSorted((a, b) => Number(b.letsIn) - Number(a.letsIn)) : allowed
  if (open.length === 0)
    return because('no_host', `no moves are accepted by ${namesOf(uncordoned)}; set DORMOUSE_AGENT_MOVE_ADDRESS there`)
  const withImage = open.filter((host) => canHaveImage(host, request))
  if (withImage.length === 0) {
    const ways = request.registered ? ' or can fetch it' : ''
    return because(
      'image_unavailable',
      `no host has the image “${request.image}”${ways}; hosts have: ${imagesOf(open)}`,
    )
  }
  return (
    withImage.find((host) => !host.quarantined && !shortage(host, request)) ??
    withImage.find((host) => !shortage(host, request)) ??
    because('no_room', `no host has enough capacity: ${shortages(withImage, request)}`)
  )
}

/** Whether the host could take the desktop now. */
export const canTake = (host: Candidate, request: PlacementRequest): boolean =>
  host.ailment === null &&
  !host.silent &&
  isOpen(host, request) &&
  lets(host, request) &&
  canHaveImage(host, request) &&
  !shortage(host, request)

const isOpen = ({ id, cordoned }: Candidate, { only }: PlacementRequest): boolean => !cordoned || id === only

/** Whether the desktop may come to the host: one that moves needs a host that lets it in, or to which it can be relayed. */
const lets = (host: Candidate, { leaving }: PlacementRequest): boolean =>
  !leaving || ((host.letsIn || leaving.mayRelay === true) && !leaving.not.includes(host.id))

/** The one host that holds the desktop's disk. Refuses with what prevents a wake there. */
export function requireHost(host: Candidate | undefined, request: PlacementRequest): Candidate {
  if (!host || host.silent) return because('host_away', 'the host that holds the desktop’s disk is unreachable')
  if (host.ailment !== null)
    return because(codeOf([host], 'host_away'), `the host that holds the desktop’s disk cannot run it: ${host.ailment}`)
  // The disk is there already, and counts only if it grows.
  const reason = shortage(host, request.growsDisk ? request : { ...request, diskGiB: 0 })
  return reason ? because('no_room', `the host that holds the desktop’s disk lacks capacity: ${reason}`) : host
}

/** A host that became unhealthy a moment ago may recover soon: its hypervisor may be restarting. */
const codeOf = (unhealthy: Candidate[], otherwise: RefusalCode = 'no_host'): RefusalCode =>
  unhealthy.some((host) => host.ailsLately) ? 'host_unreachable' : otherwise

/** What the host lacks for the desktop, in words; undefined if it lacks nothing. */
function shortage(host: Candidate, request: PlacementRequest): string | undefined {
  const memory = host.memoryMiB - host.heldMemoryMiB
  if (memory < request.memoryMiB)
    return `${host.name} has ${Math.max(0, memory)} MiB of memory free, ${request.memoryMiB} are needed`
  const vcpus = host.vcpus - host.heldVcpus
  if (vcpus < request.vcpus)
    return `${host.name} has ${Math.max(0, vcpus)} virtual CPUs free, ${request.vcpus} are needed`
  // A desktop whose disk is already there may wake on a full disk: that frees the space of its saved memory.
  if (request.diskGiB > 0 && host.freeDiskGiB < leastFreeDiskGiB) {
    return `${host.name}’s disk is full, ${host.freeDiskGiB} GiB are left`
  }
  const disk = host.diskGiB - host.heldDiskGiB
  if (disk < request.diskGiB)
    return `${host.name} has ${Math.max(0, disk)} GiB of disk free, ${request.diskGiB} are needed`
  return undefined
}

/** Why none of these takes a new desktop. */
const ailments = (hosts: Candidate[]) => hosts.map((host) => `${host.name}${ailmentOf(host)}`).join('; ')
const ailmentOf = ({ ailment, silent }: Candidate) =>
  ailment ? `: ${ailment}` : silent ? ' is unreachable' : ' is cordoned'
const imagesOf = (hosts: Candidate[]) => [...new Set(hosts.flatMap((host) => host.images))].sort().join(', ') || 'none'
const namesOf = (hosts: Candidate[]) => hosts.map(({ name }) => name).join(', ')
const shortages = (hosts: Candidate[], request: PlacementRequest) =>
  hosts.map((host) => shortage(host, request)).join('; ')

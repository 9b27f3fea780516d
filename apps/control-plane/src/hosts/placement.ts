// Where a desktop may go. Pure: decides on what the store has read, and names the limit that is in the way.
import { type RefusalCode, refusalWithCause } from '@dormouse/contract'
import type { Candidate, Wish } from './store.ts'

/** Disks grow as they are written: below this a host takes nothing more. */
const leastFreeDiskGiB = 1

/** Names and figures of hosts are for operators. */
function because(code: RefusalCode, cause: string): never {
  throw refusalWithCause(code, cause)
}

/** The first candidate that can take the desktop; refuses with the reason that is nearest to a remedy. */
export function choose(candidates: Candidate[], wish: Wish): Candidate {
  if (candidates.length === 0)
    return because('no_host', 'no host is linked; install an agent or wait until one is back')
  const well = candidates.filter((host) => host.ailment === null && !host.silent)
  if (well.length === 0) return because(codeOf(candidates), `no host can take desktops: ${ailments(candidates)}`)
  const withImage = well.filter((host) => host.images.includes(wish.image))
  if (withImage.length === 0) {
    return because('image_unavailable', `no host has the image “${wish.image}”; hosts have: ${imagesOf(well)}`)
  }
  return (
    withImage.find((host) => !lack(host, wish)) ?? because('no_room', `no host has room: ${lacks(withImage, wish)}`)
  )
}

/** The one host a desktop is bound to by its disk; refuses with what is in the way. */
export function insist(host: Candidate | undefined, wish: Wish): Candidate {
  if (!host || host.silent) return because('host_away', 'the host that holds the desktop’s disk is out of reach')
  if (host.ailment !== null)
    return because(codeOf([host], 'host_away'), `the host that holds the desktop’s disk cannot run it: ${host.ailment}`)
  const reason = lack(host, { ...wish, diskGiB: 0 })
  return reason ? because('no_room', `the host that holds the desktop’s disk has no room: ${reason}`) : host
}

/** What has only begun to ail may be well in a moment: a hypervisor is started again. */
const codeOf = (ailing: Candidate[], otherwise: RefusalCode = 'no_host'): RefusalCode =>
  ailing.some((host) => host.ailsLately) ? 'host_unreachable' : otherwise

/** What the host lacks for the wish, in words; undefined where it has room. */
function lack(host: Candidate, wish: Wish): string | undefined {
  const memory = host.memoryMiB - host.heldMemoryMiB
  if (memory < wish.memoryMiB)
    return `${host.name} has ${Math.max(0, memory)} MiB of memory free, ${wish.memoryMiB} are needed`
  const vcpus = host.vcpus - host.heldVcpus
  if (vcpus < wish.vcpus) return `${host.name} has ${Math.max(0, vcpus)} virtual CPUs free, ${wish.vcpus} are needed`
  // A desktop whose disk is there already is not kept from it: its wake may free the room of its memory.
  if (wish.diskGiB > 0 && host.freeDiskGiB < leastFreeDiskGiB) {
    return `${host.name}’s disk is full, ${host.freeDiskGiB} GiB are left`
  }
  const disk = host.diskGiB - host.heldDiskGiB
  if (disk < wish.diskGiB) return `${host.name} has ${Math.max(0, disk)} GiB of disk free, ${wish.diskGiB} are needed`
  return undefined
}

const ailments = (hosts: Candidate[]) =>
  hosts.map((host) => (host.ailment ? `${host.name}: ${host.ailment}` : `${host.name} is out of reach`)).join('; ')
const imagesOf = (hosts: Candidate[]) => [...new Set(hosts.flatMap((host) => host.images))].sort().join(', ') || 'none'
const lacks = (hosts: Candidate[], wish: Wish) => hosts.map((host) => lack(host, wish)).join('; ')

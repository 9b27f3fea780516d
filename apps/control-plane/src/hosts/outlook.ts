// Where desktops could go, one after the other, each with what those before it take. Pure: reserves nothing.
import { Refusal } from '@dormouse/contract'
import { chooseHost } from './placement.ts'
import type { Candidate, PlacementRequest } from './store.ts'

/** The host that could take each of these desktops, or why none can. */
export function outlook(candidates: Candidate[], requests: PlacementRequest[]): (Candidate | Refusal)[] {
  const hosts = candidates.map((host) => ({ ...host }))
  return requests.map((request) => {
    try {
      const free = ({ memoryMiB, heldMemoryMiB }: Candidate) => memoryMiB - heldMemoryMiB
      const host = chooseHost(
        hosts.toSorted((a, b) => free(b) - free(a)),
        request,
      )
      host.heldMemoryMiB += request.memoryMiB
      host.heldVcpus += request.vcpus
      host.heldDiskGiB += request.diskGiB
      return host
    } catch (error) {
      if (error instanceof Refusal) return error
      throw error
    }
  })
}

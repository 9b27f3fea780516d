// What a host says of itself, as far as anybody can believe it. Pure.
import type { HostFacts } from '@dormouse/contract'

/** Beyond the largest machines that there are, and within what the database counts with. */
const most = { processors: 4_096, vcpus: 16_384, memoryMiB: 256 * 1024 * 1024, diskGiB: 64 * 1024 * 1024 } as const

/**
 * The facts, each within reason, and in an ailment which were not: such a host takes no desktop until its facts are mended,
 * for whoever says that he has everything would be given everything.
 */
export function believable(facts: HostFacts): HostFacts {
  const { vcpus, memoryMiB, diskGiB } = facts.capacity
  const told = [
    { what: 'processors', says: facts.processors ?? 0, most: most.processors },
    { what: 'virtual processors', says: vcpus, most: most.vcpus },
    { what: 'MiB of memory', says: memoryMiB, most: most.memoryMiB },
    { what: 'GiB of disk', says: diskGiB, most: most.diskGiB },
    { what: 'GiB of free disk', says: facts.freeDiskGiB, most: most.diskGiB },
  ]
  const absurd = told.filter(({ says, most }) => says > most)
  if (absurd.length === 0) return facts
  return {
    ...facts,
    capacity: {
      vcpus: Math.min(vcpus, most.vcpus),
      memoryMiB: Math.min(memoryMiB, most.memoryMiB),
      diskGiB: Math.min(diskGiB, most.diskGiB),
    },
    ...(facts.processors !== undefined && { processors: Math.min(facts.processors, most.processors) }),
    freeDiskGiB: Math.min(facts.freeDiskGiB, most.diskGiB),
    ailment: `it says that it has ${absurd.map(({ says, what }) => `${says} ${what}`).join(' and ')}, which no host has; mend its agent, or remove the host`,
  }
}

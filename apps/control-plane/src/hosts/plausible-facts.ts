// Checks that what a host reports of itself is plausible. Pure.
import type { HostFacts } from '@dormouse/contract'

/** Above the largest machines that exist, and within the range of the database's columns. */
const most = { processors: 4_096, memoryMiB: 256 * 1024 * 1024, diskGiB: 64 * 1024 * 1024 } as const

/**
 * The facts, each limited to a plausible value, with an ailment that names those that were not. Such a host gets no desktop:
 * a host that claims endless capacity would get every one.
 */
export function plausibleFacts(facts: HostFacts): HostFacts {
  const { memoryMiB, diskGiB } = facts.capacity
  const told = [
    { what: 'processors', says: facts.processors, most: most.processors },
    { what: 'MiB of memory', says: memoryMiB, most: most.memoryMiB },
    { what: 'GiB of disk', says: diskGiB, most: most.diskGiB },
    { what: 'GiB of free disk', says: facts.freeDiskGiB, most: most.diskGiB },
  ]
  const implausible = told.filter(({ says, most }) => says > most)
  if (implausible.length === 0) return facts
  return {
    ...facts,
    capacity: {
      memoryMiB: Math.min(memoryMiB, most.memoryMiB),
      diskGiB: Math.min(diskGiB, most.diskGiB),
    },
    processors: Math.min(facts.processors, most.processors),
    freeDiskGiB: Math.min(facts.freeDiskGiB, most.diskGiB),
    ailment: `it reports ${implausible.map(({ says, what }) => `${says} ${what}`).join(' and ')}, which is not plausible; fix its agent, or remove the host`,
  }
}

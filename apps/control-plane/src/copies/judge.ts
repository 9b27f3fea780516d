// Judges which policy a desktop has, and which of its copies stay. Pure.
import { type CopiesKept, type CopyPolicyJson, type Labels, matches, parseSelector } from '@dormouse/contract'

export type Policy = Omit<CopyPolicyJson, 'name'>

/** The first by name that selects the desktop, else the deployment's. */
export function policyOf(policies: readonly CopyPolicyJson[], labels: Labels, usual: Policy): Policy {
  const sorted = policies.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  return sorted.find(({ select }) => select === null || matches(parseSelector(select), labels)) ?? usual
}

interface Taken {
  id: string
  takenAt: Date
}

const dayMs = 86_400_000
/** 1970 began on a Thursday; weeks begin on Mondays. */
const mondayMs = 4 * dayMs

/** The ids of the copies that stay: the newest ones, and the newest one of each of the last days and weeks that have one. */
export function kept(copies: readonly Taken[], { last, daily, weekly }: CopiesKept): Set<string> {
  const newestFirst = copies.toSorted((one, other) => other.takenAt.getTime() - one.takenAt.getTime())
  const ofEach = (count: number, period: (at: number) => number) => {
    const newest = new Map<number, string>()
    for (const { id, takenAt } of newestFirst) {
      const at = period(takenAt.getTime())
      if (!newest.has(at)) newest.set(at, id)
    }
    return [...newest.values()].slice(0, count)
  }
  return new Set([
    // The newest one always stays: it is what protects the desktop.
    ...newestFirst.slice(0, Math.max(1, last)).map(({ id }) => id),
    ...ofEach(daily, (at) => Math.floor(at / dayMs)),
    ...ofEach(weekly, (at) => Math.floor((at - mondayMs) / (7 * dayMs))),
  ])
}

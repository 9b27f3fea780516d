// Compares releases by their numbers. Pure.
import { releaseOf } from '../db/migrations.ts'

/** Below 0 if the first is older. What is no version counts as the oldest. */
export function compare(one: string | null, other: string | null): number {
  const [a, b] = [numbersOf(one), numbersOf(other)]
  const at = a.findIndex((part, index) => part !== b[index])
  return at < 0 ? 0 : a[at]! - b[at]!
}

/** Whether they are of the same release or of neighbouring ones: only then they work with each other. */
export function workTogether(one: string | null, other: string | null): boolean {
  const [a, b] = [numbersOf(one), numbersOf(other)]
  return a[0] === b[0] && Math.abs(a[1]! - b[1]!) <= 1
}

/** Of a package, its revision is left out: `0.2.0-1` is 0.2.0. */
function numbersOf(version: string | null): number[] {
  const [numbers] = /^\d+\.\d+\.\d+/.exec(version ?? '') ?? []
  return numbers ? releaseOf(numbers) : [-1, -1, -1]
}

// Sums of what was used, in whole milliseconds, so that they are exactly the sums of the rows. Pure.
import type { UsedMs } from '../ledger/store.ts'

/** One row for each tier and billing mode that occurs, in the order of their first row. */
export function totalsOf(rows: readonly UsedMs[]): Omit<UsedMs, 'desktopId'>[] {
  const totals = new Map<string, Omit<UsedMs, 'desktopId'>>()
  for (const { tier, billingMode, awakeMs, hibernatedMs } of rows) {
    const name = `${tier} ${billingMode}`
    const before = totals.get(name) ?? { tier, billingMode, awakeMs: 0, hibernatedMs: 0 }
    totals.set(name, {
      tier,
      billingMode,
      awakeMs: before.awakeMs + awakeMs,
      hibernatedMs: before.hibernatedMs + hibernatedMs,
    })
  }
  return [...totals.values()]
}

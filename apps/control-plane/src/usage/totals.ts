// Sums of usage in whole milliseconds, so that they match the rows exactly. Pure.
import type { UsedMs } from '../ledger/store.ts'

type Total = Omit<UsedMs, 'desktopId'>

/** Adds rows up one by one. */
export class Totals {
  readonly #totals = new Map<string, Total>()

  add({ tier, billingMode, awakeMs, hibernatedMs }: UsedMs): void {
    const name = `${tier} ${billingMode}`
    const before = this.#totals.get(name) ?? { tier, billingMode, awakeMs: 0, hibernatedMs: 0 }
    this.#totals.set(name, {
      tier,
      billingMode,
      awakeMs: before.awakeMs + awakeMs,
      hibernatedMs: before.hibernatedMs + hibernatedMs,
    })
  }

  /** One row for each tier and billing mode that occurs, in the order of their first row. */
  get rows(): Total[] {
    return [...this.#totals.values()]
  }
}

export function totalsOf(rows: readonly UsedMs[]): Total[] {
  const totals = new Totals()
  for (const row of rows) totals.add(row)
  return totals.rows
}

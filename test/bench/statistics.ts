// Medians and spreads of repeated measurements. Does not know what was measured.

/** The figures of all rounds of one measurement. */
export interface Spread {
  median: number
  min: number
  max: number
  rounds: number
}

/** The value below which this part of all lies. Zero for an empty list. */
export function percentile(all: readonly number[], part: number): number {
  const sorted = all.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? 0
}

/** The mean of the two in the middle if their number is even. */
export function median(all: readonly number[]): number {
  const sorted = all.toSorted((a, b) => a - b)
  const middle = (sorted.length - 1) / 2
  return (sorted[Math.floor(middle)]! + sorted[Math.ceil(middle)]!) / 2
}

export function spreadOf(all: readonly number[]): Spread {
  const rounded = (value: number) => Number(value.toPrecision(4))
  return {
    median: rounded(median(all)),
    min: rounded(Math.min(...all)),
    max: rounded(Math.max(...all)),
    rounds: all.length,
  }
}

// Times in Unix seconds, as a query has them.
import { z } from 'zod'

/** The last second of the year 9999. */
export const lastUnixSecs = 253_402_300_799

/** Digits and at most one point: no notation that programs read differently. */
const decimal = (given: unknown): unknown =>
  typeof given === 'string' && /^\d{1,32}(\.\d{1,32})?$/.test(given) ? Number(given) : Number.NaN

export const unixSecs = z.preprocess(
  decimal,
  z.number('must be Unix seconds, such as 1767225600 or 1767225600.5').min(0).max(lastUnixSecs),
)

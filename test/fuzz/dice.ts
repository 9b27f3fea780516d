// Choices that fast-check makes: the same seed and number make the same choices, and it can make them smaller. Knows no
// HTTP.
import fc, { type GeneratorValue } from 'fast-check'

// Without bias: fast-check would choose the first and the last more often.
const upTo = (max: number) => fc.noBias(fc.nat({ max }))
const bytesUpTo = (maxLength: number) => fc.noBias(fc.uint8Array({ maxLength, size: 'max' }))

export class Dice {
  readonly #choose: GeneratorValue

  constructor(choose: GeneratorValue) {
    this.#choose = choose
  }

  /** From 0 up to, and without, `below`. */
  int(below: number): number {
    return below > 1 ? this.#choose(upTo, Math.ceil(below) - 1) : 0
  }

  /** True as often as that, of 1. */
  chance(part: number): boolean {
    return this.int(1_000) >= (1 - part) * 1_000
  }

  pick<T>(all: readonly T[]): T {
    return all[this.int(all.length)] as T
  }

  many<T>(most: number, make: () => T): T[] {
    return Array.from({ length: this.int(most + 1) }, make)
  }

  bytes(most: number): Buffer {
    return Buffer.from(this.#choose(bytesUpTo, most))
  }
}

/** The choices of one numbered input, which can be made without those before it. */
export function diceOf(seed: number, at = 0): Dice {
  const [choose] = fc.sample(fc.gen(), { seed: mixed(seed, at), numRuns: 1 })
  return new Dice(choose!)
}

/** Tries one input, and while it fails ever smaller ones. Returns what came of the smallest that failed, or of the first. */
export async function smallest<T>(
  { seed, at, timeoutMs }: { seed: number; at: number; timeoutMs: number },
  attempt: (dice: Dice) => Promise<{ failed: boolean; result: T }>,
): Promise<T | undefined> {
  let kept: T | undefined
  const property = fc.asyncProperty(fc.gen(), async (choose) => {
    const { failed, result } = await attempt(new Dice(choose))
    if (failed || kept === undefined) kept = result
    return !failed
  })
  await fc.check(property, { seed: mixed(seed, at), numRuns: 1, interruptAfterTimeLimit: timeoutMs })
  return kept
}

const mixed = (seed: number, at: number): number =>
  Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) ^ Math.imul(at + 1, 0xc2b2ae35)

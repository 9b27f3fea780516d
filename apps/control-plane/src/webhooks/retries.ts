// When a failed delivery is tried again, and when it is given up. Pure.

/** Many deliveries fail together, and must not return together. */
const jitter = 0.1
/** While a receiver fails, it gets one request at a time, at least this often. */
const longestProbePauseMs = 60_000
const shortestProbePauseMs = 1_000

/** Nothing is given up by its age sooner than this. */
const leastPatienceMs = 3_600_000

export class Retries {
  readonly #pausesMs: readonly number[]
  readonly #random: () => number

  constructor(pausesMs: readonly number[], random: () => number = Math.random) {
    this.#pausesMs = pausesMs
    this.#random = random
  }

  /** From the first attempt to the last. */
  get #patienceMs(): number {
    return Math.max(
      leastPatienceMs,
      this.#pausesMs.reduce((sum, ms) => sum + ms, 0),
    )
  }

  /** Until the next attempt, in milliseconds; undefined if the failed one was the last. */
  pauseMs({ tries, ageMs }: { tries: number; ageMs: number }): number | undefined {
    const pauseMs = this.#pausesMs[tries - 1]
    if (pauseMs === undefined || ageMs > this.#patienceMs) return undefined
    return Math.round(pauseMs * (1 - jitter * this.#random()))
  }

  /** Whether nothing was accepted for as long as a delivery is tried. */
  isOver(failingForMs: number): boolean {
    return failingForMs > this.#patienceMs
  }

  /** The pause between two requests to a receiver that fails: longer, the longer it has failed. */
  probePauseMs(failingForMs: number): number {
    const least = Math.min(shortestProbePauseMs, this.#pausesMs[0] ?? shortestProbePauseMs)
    return Math.round(Math.min(longestProbePauseMs, Math.max(least, failingForMs / 10)))
  }
}

// How much of this process's one thread somebody may take by talking. Counts time, and knows neither links nor frames.

/** The longest pause asked for at once: signs of life must still be heard between two of them. */
const longestPauseMs = 1_000

export class Pace {
  readonly #share: number
  readonly #burstMs: number
  #owedMs = 0
  #since = performance.now()

  /** `share` of the thread's time, of 1, over and above `burstMs` at once. */
  constructor(share: number, burstMs = 50) {
    this.#share = share
    this.#burstMs = burstMs
  }

  /** Counts what was spent on them; answers for how many milliseconds nothing of theirs is to be read. */
  spend(ms: number): number {
    const now = performance.now()
    this.#owedMs = Math.max(0, this.#owedMs - (now - this.#since) * this.#share) + ms
    this.#since = now
    return Math.min(longestPauseMs, Math.max(0, (this.#owedMs - this.#burstMs) / this.#share))
  }
}

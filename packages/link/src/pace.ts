// Limits how much of our thread others may use by sending to us. Counts time; knows neither links nor frames.

/** The longest single pause: heartbeats must still be read between two of them. */
const longestPauseMs = 1_000

export class Pace {
  readonly #share: number
  readonly #burstMs: number
  #owedMs = 0
  #since = performance.now()

  /** `share` of the thread's time, from 0 to 1, beyond `burstMs` at once. */
  constructor(share: number, burstMs = 50) {
    this.#share = share
    this.#burstMs = burstMs
  }

  /** Counts the time that was spent on them. Returns for how many milliseconds to read nothing from them. */
  spend(ms: number): number {
    const now = performance.now()
    this.#owedMs = Math.max(0, this.#owedMs - (now - this.#since) * this.#share) + ms
    this.#since = now
    return Math.min(longestPauseMs, Math.max(0, (this.#owedMs - this.#burstMs) / this.#share))
  }
}

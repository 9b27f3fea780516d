// How many bytes may pass in a second, over all streams that share it. Exact on average; it stops nothing that flows, since
// back-pressure reaches the sender.

/** How far a stream may run ahead, so that timers of a millisecond do not limit it. */
const aheadMs = 20

export class BytePace {
  readonly #bytesPerMs: number
  #dueAt = 0

  /** `mibPerSec` undefined sets no limit. */
  constructor(mibPerSec: number | undefined) {
    this.#bytesPerMs = mibPerSec === undefined ? Number.POSITIVE_INFINITY : (mibPerSec * 1024 * 1024) / 1000
  }

  /** Counts the bytes; returns for how many milliseconds their sender has to wait before the next ones. */
  spend(bytes: number): number {
    const now = performance.now()
    this.#dueAt = Math.max(this.#dueAt, now) + bytes / this.#bytesPerMs
    const earlyMs = this.#dueAt - now
    return earlyMs > aheadMs ? earlyMs : 0
  }
}

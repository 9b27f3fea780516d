// How long to leave a desktop alone whose hibernation has failed: a minute, then ever longer. In the memory of one leader.

const firstMs = 60_000
const longestMs = 1_800_000
/** Bounds the memory. Beyond it the oldest are forgotten, and tried again sooner. */
const most = 10_000

export class Failures {
  readonly #counts = new Map<string, number>()

  /** Returns in how many milliseconds to try again. */
  note(desktopId: string): number {
    const count = this.#counts.get(desktopId) ?? 0
    this.#counts.delete(desktopId)
    this.#counts.set(desktopId, count + 1)
    if (this.#counts.size > most) this.#counts.delete(this.#counts.keys().next().value!)
    return Math.min(longestMs, firstMs * 2 ** count)
  }

  forget(desktopId: string): void {
    this.#counts.delete(desktopId)
  }
}

// Takes turns among things of which only some can be looked at in one run: what stays is not always first.

export class Rotation {
  readonly #lastTaken = new Map<string, number>()
  #runs = 0

  /** At most this many: those first that were never taken, then those that were taken longest ago. Others are forgotten. */
  take<T>(items: readonly T[], most: number, nameOf: (item: T) => string): T[] {
    const names = new Set(items.map(nameOf))
    for (const name of this.#lastTaken.keys()) if (!names.has(name)) this.#lastTaken.delete(name)
    const lastOf = (item: T) => this.#lastTaken.get(nameOf(item)) ?? 0
    const taken = items.toSorted((a, b) => lastOf(a) - lastOf(b)).slice(0, most)
    this.#runs++
    for (const item of taken) this.#lastTaken.set(nameOf(item), this.#runs)
    return taken
  }
}

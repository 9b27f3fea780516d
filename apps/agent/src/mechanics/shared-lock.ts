// Work that may run together, and work that runs alone. Knows nothing of the work.

export class SharedLock {
  readonly #sharing = new Set<Promise<unknown>>()
  #alone: Promise<unknown> = Promise.resolve()
  #waiting = 0

  /** Runs beside other shared work, and not beside work that runs alone. */
  async shared<T>(work: () => Promise<T>): Promise<T> {
    while (this.#waiting > 0) await this.#alone
    const mine = work()
    const ended = mine.catch(() => undefined)
    this.#sharing.add(ended)
    try {
      return await mine
    } finally {
      this.#sharing.delete(ended)
    }
  }

  /** Runs when no other work does; shared work that comes later waits for it. */
  async alone<T>(work: () => Promise<T>): Promise<T> {
    this.#waiting++
    const before = this.#alone
    const mine = before.then(() => Promise.all(this.#sharing)).then(work)
    this.#alone = mine.catch(() => undefined)
    return mine.finally(() => this.#waiting--)
  }
}

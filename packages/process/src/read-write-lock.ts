// Work that may run together, and work that runs alone. Knows nothing of the work.

export class ReadWriteLock {
  readonly #reading = new Set<Promise<unknown>>()
  #lastWrite: Promise<unknown> = Promise.resolve()
  #writers = 0

  /** Runs beside other reads, and not beside a write. */
  async read<T>(work: () => Promise<T>): Promise<T> {
    while (this.#writers > 0) await this.#lastWrite
    const mine = work()
    const ended = mine.catch(() => undefined)
    this.#reading.add(ended)
    try {
      return await mine
    } finally {
      this.#reading.delete(ended)
    }
  }

  /** Runs alone; reads that come later wait for it. */
  async write<T>(work: () => Promise<T>): Promise<T> {
    this.#writers++
    const mine = this.#lastWrite.then(() => Promise.all(this.#reading)).then(work)
    this.#lastWrite = mine.catch(() => undefined)
    return mine.finally(() => this.#writers--)
  }
}

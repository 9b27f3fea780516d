/** Runs work of one key in its order: the daemon runs pipelined calls in any order. */

export class Turns {
  readonly #last = new Map<string, Promise<void>>()

  /** Runs the work when all earlier work of this key has settled. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const mine = before ? before.then(work) : work()
    this.#keep(key, settled(mine))
    return mine
  }

  /** Runs the work at once. Later work of this key waits for it and for everything before it. */
  ahead<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(key)
    const mine = work()
    this.#keep(key, settled(Promise.all([before, settled(mine)])))
    return mine
  }

  #keep(key: string, end: Promise<void>): void {
    this.#last.set(key, end)
    void end.then(() => {
      if (this.#last.get(key) === end) this.#last.delete(key)
    })
  }
}

/** Resolves when the work has settled. Its caller gets the outcome. */
function settled(work: Promise<unknown>): Promise<void> {
  return work.then(
    () => {},
    () => {},
  )
}

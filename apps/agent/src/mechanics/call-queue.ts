// A queue for calls to something that takes one at a time. Knows nothing of what is called.

export class CallQueue {
  #tail: Promise<unknown> = Promise.resolve()
  #failedAt = 0
  #failure: unknown

  /**
   * Runs one call after the other. An error for which `isShared` is true also fails the calls that are queued when it
   * comes: they would each wait for the same failure.
   */
  run<T>(call: () => Promise<T>, isShared: (error: unknown) => boolean): Promise<T> {
    const queuedAt = performance.now()
    const mine = this.#tail.then(async () => {
      if (this.#failedAt > queuedAt) throw this.#failure
      try {
        return await call()
      } catch (error) {
        if (isShared(error)) [this.#failedAt, this.#failure] = [performance.now(), error]
        throw error
      }
    })
    this.#tail = mine.catch(() => undefined)
    return mine
  }
}

// A queue for calls to something that takes one at a time. Knows nothing of what is called.
import { Semaphore } from '@dormouse/process'

export class CallQueue {
  readonly #mutex = new Semaphore(1)
  /** Ends the waits of the calls that are queued now. */
  #queued = new AbortController()

  /**
   * Runs one call after the other. An error for which `isShared` is true also fails the calls that are queued when it
   * comes: they would each wait for the same failure.
   */
  run<T>(call: () => Promise<T>, isShared: (error: unknown) => boolean): Promise<T> {
    const wait = { signal: this.#queued.signal }
    return this.#mutex.run(async () => {
      try {
        return await call()
      } catch (error) {
        if (isShared(error)) {
          this.#queued.abort(error)
          this.#queued = new AbortController()
        }
        throw error
      }
    }, wait)
  }
}

// Gathers what many callers request within a moment, and does it in one call. Knows nothing of the call.
import { setTimeout as sleep } from 'node:timers/promises'

export interface BatcherOptions {
  /** Bounds one call. */
  most: number
  /** One call at a time, with this long between two begins at least. By default calls may overlap. */
  pauseMs?: number
  /** Whether an error concerns all items of its call. After any other, each is tried alone. By default every error does. */
  isShared?(error: unknown): boolean
}

interface Asked<T, R> {
  item: T
  done: PromiseWithResolvers<R>
}

export class Batcher<T, R> {
  readonly #call: (items: T[]) => Promise<R[]>
  readonly #options: BatcherOptions
  #asked: Asked<T, R>[] = []
  #isDue = false

  /** `call` resolves with one result for each item, in the same order. */
  constructor(call: (items: T[]) => Promise<R[]>, options: BatcherOptions) {
    this.#call = call
    this.#options = options
  }

  /** Resolves with the item's own result, of a call that begins after this. */
  add(item: T): Promise<R> {
    const done = Promise.withResolvers<R>()
    this.#asked.push({ item, done })
    if (!this.#isDue) setImmediate(() => void this.#callAll())
    this.#isDue = true
    return done.promise
  }

  async #callAll(): Promise<void> {
    const { most, pauseMs } = this.#options
    while (this.#asked.length > 0) {
      const called = this.#callOne(this.#asked.splice(0, most))
      if (pauseMs !== undefined) await Promise.all([called, sleep(pauseMs)])
    }
    this.#isDue = false
  }

  async #callOne(asked: Asked<T, R>[]): Promise<void> {
    const { isShared = () => true } = this.#options
    try {
      const results = await this.#call(asked.map(({ item }) => item))
      for (const [at, { done }] of asked.entries()) done.resolve(results[at]!)
    } catch (error) {
      if (asked.length === 1 || isShared(error)) for (const { done } of asked) done.reject(error)
      else for (const one of asked) await this.#callOne([one])
    }
  }
}

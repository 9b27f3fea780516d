// Gathers what many callers want to write within a moment, and writes it in one statement. Knows no table.
import { isDatabaseUnavailable } from './pool.ts'

/** The shortest time between two writes. A caller that comes after a pause does not wait. */
const pauseMs = 100
/** Bounds one statement. */
const most = 500

interface Waiting<T, R> {
  item: T
  written: PromiseWithResolvers<R>
}

export class Gathered<T, R> {
  readonly #write: (items: T[]) => Promise<R[]>
  #waiting: Waiting<T, R>[] = []
  #writing = false

  /** `write` resolves with one result for each item, in the same order. */
  constructor(write: (items: T[]) => Promise<R[]>) {
    this.#write = write
  }

  /** Resolves once the item is written. An item that cannot be written fails alone. */
  add(item: T): Promise<R> {
    const written = Promise.withResolvers<R>()
    this.#waiting.push({ item, written })
    if (!this.#writing) void this.#writeAll()
    return written.promise
  }

  /** One write at a time, so that two never wait for each other's rows. */
  async #writeAll(): Promise<void> {
    this.#writing = true
    while (this.#waiting.length > 0) {
      const pause = new Promise((resolve) => setTimeout(resolve, pauseMs))
      await this.#writeSome(this.#waiting.splice(0, most))
      await pause
    }
    this.#writing = false
  }

  async #writeSome(some: Waiting<T, R>[]): Promise<void> {
    try {
      const results = await this.#write(some.map(({ item }) => item))
      for (const [at, { written }] of some.entries()) written.resolve(results[at]!)
    } catch (error) {
      if (some.length === 1 || isDatabaseUnavailable(error)) for (const { written } of some) written.reject(error)
      else for (const one of some) await this.#writeSome([one])
    }
  }
}

// Numbers that are read when the metrics are scraped, and not more often than they change. While what they are read from is
// slow or unavailable, they stay as they are: monitoring must not be delayed.
import type { Log } from '@dormouse/process'

export interface RefreshedOptions {
  what: string
  maxAgeMs: number
  /** Reads the numbers and shows them. */
  read: () => Promise<void>
  log: Log
}

const waitMs = 1_000

export class Refreshed {
  readonly #options: RefreshedOptions
  #readAt = Number.NEGATIVE_INFINITY
  #reading: Promise<void> | undefined

  constructor(options: RefreshedOptions) {
    this.#options = options
  }

  /** Reads them again if that was long ago. Waits for that a moment. */
  async refresh(): Promise<void> {
    if (performance.now() - this.#readAt < this.#options.maxAgeMs) return
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, waitMs)
    await Promise.race([this.#reading, late.promise])
    clearTimeout(timer)
  }

  async #read(): Promise<void> {
    const { what, read, log } = this.#options
    try {
      await read()
      this.#readAt = performance.now()
    } catch (error) {
      log.debug({ err: error, what }, 'what the metrics show could not be read')
    }
  }
}

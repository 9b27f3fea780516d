// Requests under way, so that a stop can wait for them. Knows nothing of what they ask.
import type { App } from './server.ts'

export class InFlight {
  #count = 0
  #emptied: (() => void) | undefined

  /** Counts the requests of every scope that is registered after this. */
  watch(app: App): void {
    app.addHook('onRequest', async () => {
      this.#count++
    })
    app.addHook('onResponse', async () => {
      this.#count--
      if (this.#count === 0) this.#emptied?.()
    })
  }

  /** Resolves when none is under way, or when the time is over. */
  async drained(withinMs: number): Promise<void> {
    if (this.#count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#emptied = resolve
    const timer = setTimeout(resolve, withinMs)
    await promise
    clearTimeout(timer)
  }
}

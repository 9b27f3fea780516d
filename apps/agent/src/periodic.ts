// Periodic work. A failure is logged, and the work runs again after the next pause.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@dormouse/process'

export class PeriodicWork {
  readonly #log: Log
  readonly #life: AbortSignal

  /** Ends with `life`. */
  constructor(log: Log, life: AbortSignal) {
    this.#log = log
    this.#life = life
  }

  /** Does the work now, and again `pauseMs` after each time it has ended. */
  every(pauseMs: number, what: string, work: () => Promise<unknown>): void {
    void this.#repeat(pauseMs, what, work)
  }

  async #repeat(pauseMs: number, what: string, work: () => Promise<unknown>): Promise<void> {
    while (!this.#life.aborted) {
      await work().catch((err: unknown) => {
        if (!this.#life.aborted) this.#log.warn({ err, what }, 'periodic work failed; it is retried')
      })
      await sleep(pauseMs, undefined, { ref: false, signal: this.#life }).catch(() => undefined)
    }
  }
}

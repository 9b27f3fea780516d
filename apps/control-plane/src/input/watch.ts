// The batches that run on this replica: stops those whose claim another client has taken, and shows that they are alive.
import type { Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import { holdsOf } from '../streams/store.ts'
import * as store from './store.ts'

export interface Running {
  id: string
  desktopId: string
  /** The claim that it has borrowed. */
  holdId: string
  isKeyed: boolean
  /** Stops it on its host. */
  interrupt(): void
}

const checkEveryMs = 500
const renewEveryMs = 3_000

export class BatchWatch {
  readonly #pool: Pool
  readonly #log: Log
  readonly #running = new Set<Running>()
  #timer: NodeJS.Timeout | undefined
  #renewedAt = 0

  constructor(pool: Pool, log: Log) {
    this.#pool = pool
    this.#log = log
  }

  /** Watches the batch until it is disposed. */
  add(batch: Running): Disposable {
    this.#running.add(batch)
    this.#timer ??= setInterval(() => void this.check(), checkEveryMs).unref()
    return {
      [Symbol.dispose]: () => {
        this.#running.delete(batch)
        if (this.#running.size > 0) return
        clearInterval(this.#timer)
        this.#timer = undefined
      },
    }
  }

  async check(): Promise<void> {
    const batches = [...this.#running]
    if (batches.length === 0) return
    try {
      const holds = await holdsOf(
        this.#pool,
        batches.map(({ desktopId }) => desktopId),
      )
      for (const batch of batches) if (holds.get(batch.desktopId) !== batch.holdId) batch.interrupt()
      if (performance.now() - this.#renewedAt < renewEveryMs) return
      this.#renewedAt = performance.now()
      const keyed = batches.filter(({ isKeyed }) => isKeyed).map(({ id }) => id)
      if (keyed.length > 0) await store.renew(this.#pool, keyed)
    } catch (err) {
      this.#log.warn({ err }, 'batches of input could not be checked')
    }
  }
}

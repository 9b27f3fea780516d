// Notes input on screens as activity. The replica that relays a screen calls it; the leader reads the table.
import type { Log } from '@dormouse/process'
import { Gathered } from '../db/gathered.ts'
import type { Pool } from '../db/pool.ts'
import { note } from './store.ts'

/** Input on one screen is noted at most once in this time, so the true last input may be later than noted by as much. */
export const inputEveryMs = 5_000

export class ScreenInputs {
  readonly #notes: Gathered<string, undefined>
  readonly #log: Log

  constructor(pool: Pool, log: Log) {
    this.#log = log
    this.#notes = new Gathered(async (desktopIds) => {
      await note(
        pool,
        desktopIds.map((desktopId) => ({ desktopId, class: 'screen', ageMs: 0 })),
      )
      return desktopIds.map(() => undefined)
    })
  }

  /** Returns a function to call for each input on one screen. */
  of(desktopId: string): () => void {
    let notedAt = -Infinity
    return () => {
      const now = performance.now()
      if (now - notedAt < inputEveryMs) return
      notedAt = now
      this.#notes
        .add(desktopId)
        .catch((err) => this.#log.warn({ err, desktop: desktopId }, 'input on a screen could not be noted'))
    }
  }
}

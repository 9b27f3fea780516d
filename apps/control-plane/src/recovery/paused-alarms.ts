// Raises an alarm for each desktop that stays paused after a move, because its host cannot be asked to run it.
import type { Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import { pausedByMoves } from '../desktops/deferred.ts'

/** What was deferred for less time is usually done by the next attempt. */
const quietMs = 15_000

export class PausedAlarms {
  readonly #pool: Pool
  readonly #log: Log
  #raised = new Set<string>()

  constructor({ pool, log }: { pool: Pool; log: Log }) {
    this.#pool = pool
    this.#log = log
  }

  /** One alarm for each desktop and turn; after a change of leader, once more. */
  async check(): Promise<void> {
    const paused = await pausedByMoves(this.#pool, quietMs)
    const raised = new Set<string>()
    for (const { desktopId: desktop, hostId: host, command, turn, since, error } of paused) {
      const key = `${desktop} ${turn}`
      raised.add(key)
      if (this.#raised.has(key)) continue
      const facts = { desktop, host, command, since, why: error ?? 'the host is unreachable' }
      this.#log.error(
        { ...facts, alarm: true, alarmKind: 'paused' },
        'a desktop may be paused since its move, because its host could not be asked to run it',
      )
    }
    this.#raised = raised
  }
}

// Whether this replica can serve. Checked in the background, so that health checks never query the database.
import type { Pool } from '../db/pool.ts'
import type { Leadership } from './leadership.ts'

/** A database that does not answer in this time counts as unavailable. */
const look = { text: 'select 1', query_timeout: 2_000 }
const lookEveryMs = 1_000

export class Readiness {
  readonly #pool: Pool
  readonly #leadership: Leadership
  readonly #looking = new AbortController()
  /** The result of the last check. */
  database = false
  /** Whether this replica is allowed to end the sessions of a frozen leader. */
  mayTakeOver = false

  constructor(pool: Pool, leadership: Leadership) {
    this.#pool = pool
    this.#leadership = leadership
  }

  /** Whether some replica is known to lead. */
  get leader(): boolean {
    return this.#leadership.leaderKnown
  }

  /** Whether the schema is too new for this replica to change anything. */
  get outdated(): boolean {
    return this.#leadership.outdated
  }

  get leads(): boolean {
    return this.#leadership.term !== undefined
  }

  /** Checks once, and then every second in the background. */
  async start(): Promise<void> {
    await this.#look()
    const again = () => void this.#look().finally(schedule)
    const schedule = () => {
      if (!this.#looking.signal.aborted) timer = setTimeout(again, lookEveryMs).unref()
    }
    let timer: NodeJS.Timeout | undefined
    this.#looking.signal.addEventListener('abort', () => clearTimeout(timer))
    schedule()
  }

  stop(): void {
    this.#looking.abort()
  }

  async #look(): Promise<void> {
    this.database = await this.#pool.query(look).then(
      () => true,
      () => false,
    )
    this.mayTakeOver = this.database && (await this.#leadership.mayTakeOver().catch(() => false))
  }
}

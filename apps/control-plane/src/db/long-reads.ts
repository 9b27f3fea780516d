// Answers that may be larger than the memory: the rows of one query, as they were at one moment, page by page. Each holds
// a connection of the pool while it is read, so only a part of the pool is lent for that. Knows no table.
import type pg from 'pg'
import { type Pool, patiently } from './pool.ts'
import { Turns } from './turns.ts'

/** Pages in order; the last one is undefined. To be closed, however far it was read. */
export interface Pages<R> {
  next(): Promise<R[] | undefined>
  close(): void
}

export interface LongReadsOptions {
  pool: Pool
  /** Connections of the pool, of which a quarter is lent at once, and an eighth to one caller. */
  poolSize: number
}

export interface LongQuery {
  text: string
  values: unknown[]
}

/** How long one answer may take. Until then its snapshot keeps vacuum from the rows that it sees. */
export const longReadMs = 300_000
const pageRows = 500

export class LongReads {
  readonly #pool: Pool
  readonly #turns: Turns

  constructor({ pool, poolSize }: LongReadsOptions) {
    this.#pool = pool
    const atOnce = Math.max(1, Math.floor(poolSize / 4))
    const perCaller = Math.max(1, Math.floor(atOnce / 2))
    this.#turns = new Turns({ atOnce, perCaller, waitMs: 120_000, waitingPerCaller: 32 })
  }

  /** How many are read now, and how many wait for that. */
  get counts(): { taken: number; waiting: number } {
    return this.#turns.counts
  }

  /** Opens the reading when it is the caller's turn. */
  async open<R extends pg.QueryResultRow>(caller: string, query: LongQuery, gone: AbortSignal): Promise<Pages<R>> {
    await this.#turns.take(caller, gone)
    try {
      const client = await patiently(() => this.#begin(query))
      return this.#pages<R>(client, caller)
    } catch (error) {
      this.#turns.giveBack(caller)
      throw error
    }
  }

  async #begin({ text, values }: LongQuery): Promise<pg.PoolClient> {
    const client = await this.#pool.connect()
    try {
      await client.query(`begin read only; set local idle_in_transaction_session_timeout = ${longReadMs}`)
      await client.query(`declare pages no scroll cursor for ${text}`, values)
      return client
    } catch (error) {
      client.release(error as Error)
      throw error
    }
  }

  #pages<R extends pg.QueryResultRow>(client: pg.PoolClient, caller: string): Pages<R> {
    let [open, reading] = [true, false]
    return {
      next: async () => {
        reading = true
        const { rows } = await client.query<R>({ name: 'pages-next', text: `fetch ${pageRows} from pages` })
        reading = false
        return rows.length > 0 ? rows : undefined
      },
      close: () => {
        if (!open) return
        open = false
        this.#turns.giveBack(caller)
        // In the middle of a page, or after a failure, the connection is of no use to anybody.
        if (reading) client.release(true)
        else
          client.query('rollback').then(
            () => client.release(),
            (error: Error) => client.release(error),
          )
      },
    }
  }
}

// Reads results that may not fit into memory: the rows of one query from one snapshot, page by page. Each read holds a
// connection of the pool, so long reads may use only a part of the pool. Knows no table.
import { refuse } from '@dormouse/contract'
import { Semaphore } from '@dormouse/process'
import type pg from 'pg'
import { type Pool, retryWhileUnavailable } from './pool.ts'

/** Pages in order; undefined after the last one. The reader must close it, even if it stops early. */
export interface Pages<R> {
  next(): Promise<R[] | undefined>
  close(): void
}

export interface LongReadsOptions {
  pool: Pool
  /** Connections of the pool. Long reads use up to a quarter of them, and those of one caller up to an eighth. */
  poolSize: number
}

export interface LongQuery {
  text: string
  values: unknown[]
  /** Parsers of its columns, if they are not the usual ones. */
  types?: pg.CustomTypesConfig
}

/** How long one read may take. Its snapshot keeps vacuum from removing rows that it sees. */
export const longReadMs = 300_000
const pageRows = 500
/** The most requests of one caller that wait; further ones are refused. */
const mostWaiting = 32

const busy = (): never =>
  refuse('rate_limited', 'too many long lists are being read; ask for pages with `limit`, or retry in a moment')
const limit = { ms: 120_000, error: () => new Error('a long list waited too long') }

export class LongReads {
  readonly #pool: Pool
  readonly #slots: Semaphore

  constructor({ pool, poolSize }: LongReadsOptions) {
    this.#pool = pool
    const atOnce = Math.max(1, Math.floor(poolSize / 4))
    const perCaller = Math.max(1, Math.floor(atOnce / 2))
    this.#slots = new Semaphore(atOnce, perCaller)
  }

  /** How many reads are open, and how many wait for a slot. */
  get counts(): { taken: number; waiting: number } {
    return this.#slots.counts
  }

  /** Waits for a slot of the caller, then opens the read. */
  async open<R extends pg.QueryResultRow>(caller: string, query: LongQuery, gone: AbortSignal): Promise<Pages<R>> {
    if (this.#slots.waiting(caller) >= mostWaiting) busy()
    const release = await this.#slots.acquire({ share: caller, signal: gone, limit }).catch(busy)
    try {
      const client = await retryWhileUnavailable(() => this.#begin(query))
      return this.#pages<R>(client, release, query)
    } catch (error) {
      release()
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

  #pages<R extends pg.QueryResultRow>(client: pg.PoolClient, release: () => void, { types }: LongQuery): Pages<R> {
    let [open, reading] = [true, false]
    return {
      next: async () => {
        reading = true
        const { rows } = await client.query<R>({ name: 'pages-next', text: `fetch ${pageRows} from pages`, types })
        reading = false
        return rows.length > 0 ? rows : undefined
      },
      close: () => {
        if (!open) return
        open = false
        release()
        // In the middle of a page, or after an error, the connection cannot be reused.
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

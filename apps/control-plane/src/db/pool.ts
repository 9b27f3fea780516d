// The ground: connections to Postgres, and transactions. Knows no table.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/** Anything a query can be sent to: the pool, or the connection of a transaction. */
export interface Db {
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(config: pg.QueryConfig): Promise<pg.QueryResult<R>>
}

export type Pool = pg.Pool

// bigint columns hold counters far below 2^53; timestamps are only ever shown, as RFC 3339 with milliseconds.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

const session = {
  statement_timeout: 10_000,
  // A server that is frozen ends no statement by itself.
  query_timeout: 12_000,
  // A frozen process must not hold a row that a new leader waits for.
  idle_in_transaction_session_timeout: 2_000,
  keepAlive: true,
  connectionTimeoutMillis: 2_000,
}

/** Opens a pool. An idle connection that breaks is replaced by the pool; its error is only worth a line in the log. */
export function openPool(url: string, max: number, onIdleError: (error: Error) => void): Pool {
  const pool = new pg.Pool({ connectionString: url, max, application_name: 'dormouse', ...session })
  pool.on('error', onIdleError)
  // Between the pool's hands and a transaction's nobody listens for a moment: then the next query says what was lost.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/** A connection outside the pool, for what lives as long as the session: the advisory lock of the leader. */
export async function openSession(url: string): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: url,
    application_name: 'dormouse-leadership',
    keepAlive: true,
    connectionTimeoutMillis: 2_000,
  })
  // It may be ended in the very packet that welcomes it, before anybody else could listen.
  let ended: Error | undefined
  client.on('error', (error) => {
    ended = error
  })
  await client.connect()
  if (ended) throw ended
  return client
}

/** The connection broke while a commit was under way: whether it took effect must be read back. */
export class CommitUnknown extends Error {
  override readonly name = 'CommitUnknown'
}

/**
 * Runs `work` in one transaction, READ COMMITTED. `begin` may carry further statements, to save a round trip; `check`
 * sees their results. Whatever is thrown rolls back. A connection that was lost, or whose rollback fails, is not given
 * back to the pool.
 */
export async function transaction<T>(
  pool: Pool,
  work: (tx: pg.PoolClient) => Promise<T>,
  begin = 'begin',
  check?: (results: pg.QueryResult[]) => void,
): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  // Between queries a lost connection is an event, not a rejection: the next query then fails by itself.
  const onError = (error: Error) => {
    broken = error
  }
  client.on('error', onError)
  try {
    const results = (await client.query(begin)) as unknown as pg.QueryResult | pg.QueryResult[]
    check?.(Array.isArray(results) ? results : [results])
    const value = await work(client)
    await client.query('commit').catch((error: Error) => {
      throw isDatabaseAway(error) ? new CommitUnknown('the answer to a commit was lost', { cause: error }) : error
    })
    return value
  } catch (error) {
    if (error instanceof CommitUnknown || isDatabaseAway(error)) broken = error as Error
    else
      await client.query('rollback').catch((failed: Error) => {
        broken = failed
      })
    throw error
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

const patienceMs = 2_000

/** Tries a read again while the database is away, for at most 2 s. Never for what writes: it may have been done. */
export async function patiently<T>(read: () => Promise<T>): Promise<T> {
  const ends = performance.now() + patienceMs
  for (;;) {
    try {
      return await read()
    } catch (error) {
      if (!isDatabaseAway(error) || performance.now() > ends) throw error
      await sleep(100)
    }
  }
}

/** Postgres’ code of an error, e.g. `23505` for a unique violation; undefined where it has none. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Whether the database itself is away (starting, stopping, unreachable), as opposed to having refused a statement. */
export function isDatabaseAway(error: unknown): boolean {
  const code = sqlState(error)
  if (code) return /^(08|57P|25P03|53300|ECONN|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ENOENT)/.test(code)
  return (
    error instanceof Error &&
    /connection terminated|query read timeout|timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error/i.test(
      error.message,
    )
  )
}

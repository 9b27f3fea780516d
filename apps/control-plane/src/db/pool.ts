// The ground: connections to Postgres, and transactions. Knows no table.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'

/** Anything a query can be sent to: the pool, or the connection of a transaction. */
export interface Db {
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(config: pg.QueryConfig): Promise<pg.QueryResult<R>>
}

export type Pool = pg.Pool

/** Writes down what a transaction does to somebody or something, in that very transaction. Null: it changes nothing. */
export type Note = (tx: Db, subject: string, details?: Record<string, unknown> | null) => Promise<void>

// bigint columns hold counters far below 2^53; timestamps are only ever shown, as RFC 3339 with milliseconds.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

/** What our sessions are called in Postgres. A take-over ends sessions by these names, those of earlier releases too. */
export const sessionNames = {
  pool: 'dormouse',
  leadership: 'dormouse-leadership',
  migration: 'dormouse-migration',
} as const

const timeouts = ['statement_timeout', 'query_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']

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
  const own = { connectionString: withoutSettings(url, ['application_name']), application_name: sessionNames.pool }
  const pool = new pg.Pool({ ...own, max, ...session })
  pool.on('error', onIdleError)
  // Between the pool's hands and a transaction's nobody listens for a moment: then the next query says what was lost.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/**
 * A connection outside the pool, without any timeout of a statement: for what lives as long as the session, such as the
 * leader's advisory lock, and for migrations.
 */
export async function openSession(url: string, name: keyof typeof sessionNames): Promise<pg.Client> {
  const client = new pg.Client({
    connectionString: withoutSettings(url, ['application_name', ...timeouts]),
    application_name: sessionNames[name],
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

/** What a URL says in its query would win over what we say. */
function withoutSettings(url: string, names: readonly string[]): string {
  const [address = '', query = ''] = url.split('?', 2)
  const left = query.split('&').filter((pair) => pair !== '' && !names.includes(pair.split('=', 1)[0]!))
  return left.length > 0 ? `${address}?${left.join('&')}` : address
}

/** The connection broke while a commit was under way: whether it took effect must be read back. */
export class CommitUnknown extends Error {
  override readonly name = 'CommitUnknown'
  /** The backend that was asked. Once it has ended, what is not there will not come. */
  readonly backendPid: number | null

  constructor(backendPid: number | null, cause: Error) {
    super('the answer to a commit was lost', { cause })
    this.backendPid = backendPid
  }
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
      throw isDatabaseAway(error) ? new CommitUnknown(pidOf(client), error) : error
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

/** The backend's pid; null until it has said it. */
export const pidOf = (client: pg.Client | pg.PoolClient): number | null =>
  (client as pg.Client & { processID: number | null }).processID

/** Whether a backend of ours has ended, and with it all that it was asked to commit. */
export async function hasEnded(db: Db, pid: number): Promise<boolean> {
  const { rowCount } = await db.query('select 1 from pg_stat_activity where pid = $1 and application_name = $2', [
    pid,
    sessionNames.pool,
  ])
  return rowCount === 0
}

/** How long the database may be away before a caller is told: the contract's, and that of who may simply ask again. */
export const patienceMs = { contract: 10_000, brief: 2_000 }

/**
 * Tries again while the database is away. For reads, and for what may be done twice: it may have been done when the
 * answer was lost.
 */
export async function patiently<T>(read: () => Promise<T>, withinMs = patienceMs.contract): Promise<T> {
  const ends = performance.now() + withinMs
  for (let attempt = 0; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      const mayPass = isDatabaseAway(error) || error instanceof CommitUnknown
      if (!mayPass || performance.now() > ends) throw error
      // Those who wait must not come all at once.
      await sleep(Math.min(500, 50 * 2 ** attempt) * (0.5 + Math.random() / 2))
    }
  }
}

/** Postgres’ code of an error, e.g. `23505` for a unique violation; undefined where it has none. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/**
 * Whether the database itself is away (starting, stopping, unreachable), as opposed to having refused a statement. Who was
 * ended to resolve a deadlock has done nothing either, and may ask again.
 */
export function isDatabaseAway(error: unknown): boolean {
  const code = sqlState(error)
  if (code) return /^(08|57P|25P03|40P01|53300|ECONN|EHOST|ENET|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ENOENT)/.test(code)
  return (
    error instanceof Error &&
    /connection terminated|query read timeout|timeout exceeded when trying to connect|Connection terminated|Client has encountered a connection error/i.test(
      error.message,
    )
  )
}

// Connections to Postgres, and retries while it is unavailable. Knows no table.
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { LanedPool } from './lanes.ts'
import { tlsFileSettings, tlsFromFiles } from './tls-files.ts'

/** Anything that runs queries: the pool, or the connection of a transaction. */
export interface Db {
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(text: string, values?: unknown[]): Promise<pg.QueryResult<R>>
  query<R extends pg.QueryResultRow = pg.QueryResultRow>(config: pg.QueryConfig): Promise<pg.QueryResult<R>>
}

export type Pool = pg.Pool

/** Records the change to the subject in the audit log, in the same transaction. Null details: nothing was changed. */
export type Note = (tx: Db, subject: string, details?: Record<string, unknown> | null) => Promise<void>

// bigint columns hold counters far below 2^53.
pg.types.setTypeParser(pg.types.builtins.INT8, Number)

/** The names of our sessions in Postgres. A failover ends sessions by these names, also those of earlier releases. */
export const sessionNames = {
  pool: 'dormouse',
  leadership: 'dormouse-leadership',
  migration: 'dormouse-migration',
  events: 'dormouse-events',
} as const

const timeouts = ['statement_timeout', 'query_timeout', 'lock_timeout', 'idle_in_transaction_session_timeout']

const session = {
  statement_timeout: 10_000,
  // If the server is frozen, it does not end a statement itself.
  query_timeout: 12_000,
  // If this process is frozen, it must not keep a row locked that a new leader waits for.
  idle_in_transaction_session_timeout: 2_000,
  keepAlive: true,
  connectionTimeoutMillis: 2_000,
}

/** Opens a pool. The pool replaces an idle connection that breaks; its error only goes to `onIdleError`. */
export function openPool(url: string, max: number, onIdleError: (error: Error) => void): Pool {
  const own = { ...addressOf(url, ['application_name']), application_name: sessionNames.pool }
  const pool = new LanedPool({ ...own, max, ...session, pipeline: true })
  pool.on('error', onIdleError)
  // Between the pool and a transaction a client has no listener for a moment. The next query then reports the error.
  pool.on('connect', (client) => client.on('error', () => undefined))
  return pool
}

/**
 * Opens a connection outside the pool, without a statement timeout, for uses that last as long as the session: migrations, and
 * locks such as the leader's advisory lock.
 */
export async function openSession(url: string, name: keyof typeof sessionNames): Promise<pg.Client> {
  const client = new pg.Client({
    ...addressOf(url, ['application_name', ...timeouts]),
    application_name: sessionNames[name],
    keepAlive: true,
    connectionTimeoutMillis: 2_000,
  })
  // The server may end the connection in the packet that accepts it, before a caller can listen.
  let ended: Error | undefined
  client.on('error', (error) => {
    ended = error
  })
  await client.connect()
  if (ended) throw ended
  return client
}

/** Without these settings. The files of TLS are those that were read last, at each connection. */
function addressOf(url: string, without: readonly string[]): Pick<pg.ClientConfig, 'connectionString' | 'ssl'> {
  const ssl = tlsFromFiles(url)
  const names = ssl ? [...without, 'sslmode', ...tlsFileSettings] : without
  return { connectionString: withoutSettings(url, names), ...(ssl && { ssl }) }
}

/** Settings in a URL's query would override ours. */
function withoutSettings(url: string, names: readonly string[]): string {
  const [address = '', query = ''] = url.split('?', 2)
  const left = query.split('&').filter((pair) => pair !== '' && !names.includes(pair.split('=', 1)[0]!))
  return left.length > 0 ? `${address}?${left.join('&')}` : address
}

/** The connection was lost during a commit. Whether it took effect must be read back. */
export class CommitUnknown extends Error {
  override readonly name = 'CommitUnknown'
  /** The backend that got the commit. Once it has ended, a commit that is not visible will never appear. */
  readonly backendPid: number | null

  constructor(backendPid: number | null, cause: Error) {
    super('the connection was lost during a commit', { cause })
    this.backendPid = backendPid
  }
}

/** The backend's pid; null until the server has sent it. */
export const pidOf = (client: pg.Client | pg.PoolClient): number | null =>
  (client as pg.Client & { processID: number | null }).processID

/** Whether one of our backends has ended. What it has not committed by then is rolled back. */
export async function hasEnded(db: Db, pid: number): Promise<boolean> {
  const { rowCount } = await db.query('select 1 from pg_stat_activity where pid = $1 and application_name = $2', [
    pid,
    sessionNames.pool,
  ])
  return rowCount === 0
}

/**
 * How long a request retries while the database is unavailable: as long as the contract requires, or briefly if the caller can
 * retry.
 */
export const retryLimitMs = { contract: 10_000, brief: 2_000 }

/**
 * Retries while the database is unavailable. Only for reads and idempotent actions: the first attempt may have succeeded even
 * if its answer was lost.
 */
export async function retryWhileUnavailable<T>(read: () => Promise<T>, withinMs = retryLimitMs.contract): Promise<T> {
  const ends = performance.now() + withinMs
  for (let attempt = 0; ; attempt++) {
    try {
      return await read()
    } catch (error) {
      if (!isConnectionLost(error) || performance.now() > ends) throw error
      // Jitter, so that all waiting requests do not retry at once.
      await sleep(Math.min(500, 50 * 2 ** attempt) * (0.5 + Math.random() / 2))
    }
  }
}

/** The error's SQLSTATE, such as `23505` for a unique violation, or its system error code; undefined if it has none. */
export function sqlState(error: unknown): string | undefined {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : undefined
}

/** Whether a retry makes sense: the database is unavailable, or was lost during a commit. */
export const isConnectionLost = (error: unknown): boolean =>
  error instanceof CommitUnknown || isDatabaseUnavailable(error)

/**
 * Whether the database is unavailable (starting, stopping, unreachable), as opposed to having rejected a statement. The
 * victim of a deadlock counts too: it has changed nothing and may retry.
 */
export function isDatabaseUnavailable(error: unknown): boolean {
  const code = sqlState(error)
  // A certificate that expires while the service runs: new connections fail until it is renewed.
  if (code && /^(ERR_TLS_|CERT_|UNABLE_TO_|SELF_SIGNED|DEPTH_ZERO)/.test(code)) return true
  if (code) return /^(08|57P|25P03|40P01|53300|ECONN|EHOST|ENET|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|ENOENT)/.test(code)
  return (
    error instanceof Error &&
    /connection terminated|query read timeout|timeout exceeded when trying to connect|timeout expired|Connection terminated|Client has encountered a connection error/i.test(
      error.message,
    )
  )
}

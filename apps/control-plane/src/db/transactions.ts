// Transactions on a connection of the pool, with several statements per round trip. Knows no table.
import type pg from 'pg'
import { Batch } from './batch.ts'
import { noteCommit } from './commits.ts'
import { CommitUnknown, type Db, isConnectionLost, isDatabaseUnavailable, type Pool, pidOf, sqlState } from './pool.ts'

/** A statement behind `begin` that fails if the transaction must not go on. */
export interface Fence {
  statement: pg.QueryConfig
  /** Throws the caller's error if the statement has failed. */
  failed(error: unknown): never
}

export interface TransactionOptions {
  fence?: Fence | undefined
  /** Another isolation level. */
  begin?: pg.QueryConfig
}

const readCommitted = { name: 'begin', text: 'begin isolation level read committed' }

/** Begins a transaction whose reads are all of the same moment. */
export const snapshot = { name: 'begin-snapshot', text: 'begin isolation level repeatable read read only' }

/** The transaction, as its work sees it. */
export interface Tx extends Db {
  /**
   * Declares the statements of this tick to be the last: the commit is sent right behind them. An error that the work throws
   * later does not roll back. If a statement fails, all are rolled back.
   */
  last(): void
}

/**
 * Runs `work` in one READ COMMITTED transaction. `begin`, the fence and the first statements of `work` share a round trip, and
 * so do later statements that are sent in one tick; if one fails, Postgres skips those behind it. Any error rolls back. A
 * connection that was lost, or whose rollback fails, does not return to the pool. Await statements that are sent at once with
 * `together`: `Promise.all` would continue before all are answered, and nothing may be sent behind a rollback.
 */
export async function transaction<T>(
  pool: Pool,
  work: (tx: Tx) => Promise<T>,
  { fence, begin }: TransactionOptions = {},
): Promise<T> {
  return withClient(pool, async (client, condemn) => {
    const batch = new Committing(client)
    const opened = open(batch, fence, begin)
    try {
      const value = await work(batch).catch((error: unknown) => opened.then(() => Promise.reject(error)))
      await opened
      await (batch.committed ?? commit(batch, client))
      if (begin !== snapshot) noteCommit(pool)
      return value
    } catch (error) {
      const lost = await batch.committed?.then(
        () => undefined,
        (failed: unknown) => (failed instanceof CommitUnknown ? failed : undefined),
      )
      batch.close()
      if (!isConnectionLost(lost ?? error)) await client.query('rollback').catch(condemn)
      throw lost ?? error
    }
  })
}

/** Runs a transaction in a single round trip: `work` sends all of its statements before it waits for the first. */
export const transactionAtOnce = <T>(pool: Pool, work: (tx: Db) => Promise<T>, fence?: Fence): Promise<T> =>
  transaction(
    pool,
    (tx) => {
      tx.last()
      return work(tx)
    },
    { fence },
  )

class Committing extends Batch implements Tx {
  readonly #client: pg.PoolClient
  /** The commit that was sent behind the last statements. */
  committed: Promise<void> | undefined

  constructor(client: pg.PoolClient) {
    super(client)
    this.#client = client
  }

  last(): void {
    process.nextTick(() => {
      this.committed = commit(this, this.#client)
      this.committed.catch(() => undefined)
      this.send()
      this.close()
    })
  }
}

/**
 * Borrows a connection for `use`. After an error that the caller handles itself the connection is reused; a lost one does not
 * return to the pool.
 */
async function withClient<T>(
  pool: Pool,
  use: (client: pg.PoolClient, condemn: (error: Error) => void) => Promise<T>,
): Promise<T> {
  const client = await pool.connect()
  let broken: Error | undefined
  // Between queries a lost connection is an event, not a rejection. The next query then fails.
  const onError = (error: Error) => {
    broken = error
  }
  client.on('error', onError)
  try {
    return await use(client, onError)
  } catch (error) {
    if (isConnectionLost(error)) broken = error as Error
    throw error
  } finally {
    client.off('error', onError)
    client.release(broken)
  }
}

function open(batch: Batch, fence: Fence | undefined, begin: pg.QueryConfig = readCommitted): Promise<unknown> {
  const begun = batch.query(begin)
  const opened = fence
    ? batch.query(fence.statement).catch((error: unknown) => begun.then(() => fence.failed(error)))
    : begun
  // It is awaited after the work, which may throw first.
  opened.catch(() => undefined)
  return opened
}

/**
 * If a statement of the transaction has failed, Postgres answers the commit with a rollback and no error, or skips the commit.
 */
async function commit(batch: Batch, client: pg.PoolClient): Promise<void> {
  const { command } = await batch.query({ name: 'commit', text: 'commit' }).catch((error: Error) => {
    throw mayHaveCommitted(error) ? new CommitUnknown(pidOf(client), error) : error
  })
  if (command !== 'COMMIT') throw new Error('a statement of the transaction has failed: it was rolled back')
}

/** False if the commit was never sent, and for the victim of a deadlock. */
const mayHaveCommitted = (error: Error): boolean =>
  isDatabaseUnavailable(error) && sqlState(error) !== '40P01' && !/is not queryable$/.test(error.message)

// Transactions on a connection of the pool, and what shares a round trip in them. Knows no table.
import type pg from 'pg'
import { Batch } from './batch.ts'
import { CommitUnknown, type Db, isConnectionLost, isDatabaseUnavailable, type Pool, pidOf, sqlState } from './pool.ts'

/** A statement behind `begin` that fails where the transaction must not go on. */
export interface Fence {
  statement: pg.QueryConfig
  /** Throws what the caller should see where the statement has failed. */
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

/**
 * Runs `work` in one READ COMMITTED transaction. `begin`, the fence and the first statements of `work` share a round trip, and
 * so do later statements that are sent in one tick; where one fails, Postgres skips those behind it. Any error rolls back. A
 * connection that was lost, or whose rollback fails, does not return to the pool.
 */
export async function transaction<T>(
  pool: Pool,
  work: (tx: Db) => Promise<T>,
  { fence, begin }: TransactionOptions = {},
): Promise<T> {
  return withClient(pool, async (client, condemn) => {
    const batch = new Batch(client)
    const opened = open(batch, fence, begin)
    try {
      const value = await work(batch).catch((error: unknown) => opened.then(() => Promise.reject(error)))
      await opened
      await commit(batch, client)
      return value
    } catch (error) {
      await rollBack(batch, client, error).catch(condemn)
      throw error
    }
  })
}

/**
 * Runs a transaction in a single round trip: its commit is sent right behind the statements. So `work` sends all of them
 * before it waits for the first, and what it decides afterwards takes nothing back. A statement that fails still rolls back
 * the others.
 */
export async function transactionAtOnce<T>(pool: Pool, work: (tx: Db) => Promise<T>, fence?: Fence): Promise<T> {
  return withClient(pool, async (client, condemn) => {
    const batch = new Batch(client)
    const opened = open(batch, fence)
    const working = work(batch)
    const committing = commit(batch, client)
    batch.send()
    batch.close()
    const [begun, worked, committed] = await Promise.allSettled([opened, working, committing])
    if (committed.status === 'fulfilled' && worked.status === 'fulfilled') return worked.value
    const failed = [begun, worked, committed].filter((outcome) => outcome.status === 'rejected')
    const { reason } = failed.find(({ reason }) => reason instanceof CommitUnknown) ?? failed[0]!
    await rollBack(batch, client, reason).catch(condemn)
    throw reason
  })
}

/** Lends a connection. An error that the caller handles itself leaves it usable; a lost one does not return to the pool. */
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

/**
 * Waits for statements that were sent together, also where one fails: nothing may be sent behind a rollback. Throws the first
 * error in their order. In a transaction, `Promise.all` would go on too early.
 */
export async function together<T extends readonly unknown[]>(
  statements: readonly [...{ [I in keyof T]: Promise<T[I]> }],
): Promise<T> {
  const outcomes = await Promise.allSettled(statements)
  for (const outcome of outcomes) if (outcome.status === 'rejected') throw outcome.reason
  return outcomes.map((outcome) => (outcome as PromiseFulfilledResult<unknown>).value) as unknown as T
}

function open(batch: Batch, fence: Fence | undefined, begin: pg.QueryConfig = readCommitted): Promise<unknown> {
  const begun = batch.query(begin)
  const opened = fence
    ? batch.query(fence.statement).catch((error: unknown) => begun.then(() => fence.failed(error)))
    : begun
  // It is awaited behind the work, which may throw first.
  opened.catch(() => undefined)
  return opened
}

/** Of a transaction in which a statement failed, Postgres answers the commit with a rollback and no error, or skips it. */
async function commit(batch: Batch, client: pg.PoolClient): Promise<void> {
  const { command } = await batch.query({ name: 'commit', text: 'commit' }).catch((error: Error) => {
    throw mayHaveCommitted(error) ? new CommitUnknown(pidOf(client), error) : error
  })
  if (command !== 'COMMIT') throw new Error('a statement of the transaction has failed: it was rolled back')
}

/** Not where the commit was never sent, nor for the victim of a deadlock. */
const mayHaveCommitted = (error: Error): boolean =>
  isDatabaseUnavailable(error) && sqlState(error) !== '40P01' && !/is not queryable$/.test(error.message)

async function rollBack(batch: Batch, client: pg.PoolClient, error: unknown): Promise<void> {
  batch.close()
  if (!isConnectionLost(error)) await client.query('rollback')
}

// Finds out the outcome of a transaction whose answer was lost. Does not know what it has written.
import { Refusal, refuse } from '@dormouse/contract'
import {
  CommitUnknown,
  hasEnded,
  isDatabaseUnavailable,
  type Pool,
  retryLimitMs,
  retryWhileUnavailable,
} from '../db/pool.ts'

/**
 * Runs a transaction. If the answer to its commit is lost, reads the outcome back by the id that was chosen before. If that is
 * impossible too, a request with a key gets 503 and may be retried. A request without a key gets 500: it may have taken effect.
 */
export async function readBack<T>(
  pool: Pool,
  key: string | null,
  find: () => Promise<T | undefined>,
  act: () => Promise<T>,
): Promise<T> {
  try {
    return await act()
  } catch (error) {
    if (error instanceof Refusal) throw error
    if (isDatabaseUnavailable(error)) return nothingChanged()
    if (!(error instanceof CommitUnknown)) throw error
    const within = key === null ? retryLimitMs.contract : retryLimitMs.brief
    const found = await retryWhileUnavailable(() => outcome(pool, error, find), within).catch(() => 'unknown' as const)
    if (found === undefined) return nothingChanged()
    if (found !== 'unknown') return found
    if (key !== null) refuse('database_unavailable', 'the database connection was lost; send the request again')
    throw error
  }
}

/** What was committed; undefined once it is certain that nothing was and nothing will be. */
async function outcome<T>(pool: Pool, lost: CommitUnknown, find: () => Promise<T | undefined>): Promise<T | undefined> {
  const ended = lost.backendPid !== null && (await hasEnded(pool, lost.backendPid))
  const found = await find()
  if (found === undefined && !ended) throw lost
  return found
}

const nothingChanged = (): never => refuse('database_unavailable')

// How recovery of a host fails: errors are logged and the next run retries. Knows nothing of what is recovered.
import { isOvertaken, Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { isDatabaseUnavailable } from '../db/pool.ts'

/** Runs the work and logs its error: as `info` if leader, link or database were lost, otherwise as `error`. Never rejects. */
export async function guarded(log: Log, work: () => Promise<unknown>): Promise<void> {
  try {
    await work()
  } catch (error) {
    const passing = isOvertaken(error, 'leader') || (error instanceof Refusal && error.code === 'host_unreachable')
    log[passing || isDatabaseUnavailable(error) ? 'info' : 'error'](
      { err: error },
      'recovery was interrupted; it will run again',
    )
  }
}

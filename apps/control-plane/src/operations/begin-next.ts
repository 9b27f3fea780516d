// Begins the request that waits behind a settled operation. Knows no desktop.
import type { Log } from '@dormouse/process'
import type { Db } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { EngineObserver } from './observer.ts'
import { isSettled, type OperationRow } from './store.ts'
import type { Waiters } from './waiters.ts'

export interface BeginNextOptions {
  leadership: Leadership
  waiters: Waiters
  observer: EngineObserver
  log: Log
  /** Returns the request as it has begun, or as it has failed; undefined if none waits. */
  follow(tx: Db, behind: string): Promise<OperationRow | undefined>
  accept(row: OperationRow): void
}

/** Never rejects: if it fails, the next adoption repeats it. */
export async function beginNext(behind: string, options: BeginNextOptions): Promise<void> {
  const { leadership, waiters, observer, log, follow, accept } = options
  try {
    const next = await leadership.transaction((tx) => follow(tx, behind))
    if (!next) return
    if (!isSettled(next)) return accept(next)
    waiters.settled(next)
    observer.settled(next)
  } catch (err) {
    log.warn({ err, operation: behind }, 'what waits behind an operation could not begin yet')
  }
}

// What the engine is made from.
import type { Failpoints, Log } from '@dormouse/process'
import type { Db, Pool } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { OperationDefinition } from './definition.ts'
import type { EngineObserver } from './observer.ts'
import type { OperationRow } from './store.ts'
import type { Waiters } from './waiters.ts'
import type { WorkQueue } from './work-queue.ts'

export interface EngineOptions {
  pool: Pool
  leadership: Leadership
  waiters: Waiters
  queue: WorkQueue
  definitions: Record<string, OperationDefinition>
  failpoints: Failpoints
  log: Log
  observer: EngineObserver
  /** Each progress report of a long save or restore extends the deadline to at least this long from now. */
  progressGraceMs: number
  /** Begins the request that waits behind a settled operation, if one does. */
  follow(tx: Db, behind: string): Promise<OperationRow | undefined>
}

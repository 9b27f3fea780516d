// Resumes what earlier leaders have left: every stored operation that has not settled.
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '@dormouse/process'
import type { Pool } from '../db/pool.ts'
import type { Term } from '../leadership/leadership.ts'
import type { OperationRow } from './store.ts'
import * as store from './store.ts'

export interface AdoptionOptions {
  pool: Pool
  log: Log
  /** Whether this replica runs it in this term. */
  runs(id: string): boolean
  /** Resolves once this replica no longer runs it in an earlier term; undefined if it does not. */
  left(id: string): Promise<void> | undefined
  start(row: OperationRow): void
}

/** How many stored operations a new leader reads at once. */
const readAtOnce = 500

/** Retries until all are read, or the term has ended. */
export async function adopt(term: Term, { pool, log, runs, left, start }: AdoptionOptions): Promise<void> {
  while (!term.signal.aborted) {
    try {
      const ids = (await store.liveIds(pool)).filter((id) => !runs(id))
      if (ids.length > 0) log.info({ count: ids.length, epoch: term.epoch }, 'resuming operations')
      while (ids.length > 0) {
        for (const row of await store.liveOf(pool, ids.splice(0, readAtOnce))) {
          // One that does not end holds up no other.
          const ended = left(row.id)
          if (ended) void ended.then(() => term.signal.aborted || start(row))
          else if (!term.signal.aborted) start(row)
        }
      }
      return
    } catch (error) {
      log.warn({ err: error }, 'operations could not be read; retrying')
      await sleep(200, undefined, { ref: false })
    }
  }
}

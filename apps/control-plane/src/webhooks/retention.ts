// Deletes old deliveries, and webhooks that were removed.
import type { Db } from '../db/pool.ts'
import * as deliveries from './deliveries.ts'
import * as store from './store.ts'

/** Deletes a batch of deliveries that are older than so many days, or of removed webhooks; returns how many rows. */
export async function prune(db: Db, days: number): Promise<number> {
  return (await deliveries.prune(db, days)) + (await store.pruneDeleted(db))
}

// Prunes old records: each room deletes its own, in batches, and nothing that the API promises to keep.
import type { Log } from '@dormouse/process'
import * as activity from '../activity/store.ts'
import * as audit from '../audit/store.ts'
import type { Db } from '../db/pool.ts'
import { pruneGenerations } from '../desktops/generations.ts'
import * as invites from '../hosts/invites.ts'
import { pruneTokens } from '../hosts/proof-store.ts'
import { pruneArrivals } from '../hosts/reservations.ts'
import * as leadership from '../leadership/store.ts'
import * as operations from '../operations/retention.ts'

export interface RetentionOptions {
  db: Db
  log: Log
  recordsDays: number
  auditDays: number
  /** Of rooms beside this one. */
  pruneDrains(db: Db, days: number): Promise<number>
  pruneExecs(db: Db, days: number): Promise<number>
  pruneWebhooks(db: Db): Promise<number>
  pruneInput(db: Db, days: number): Promise<number>
  pruneFileUrls(db: Db): Promise<number>
}

export class Retention {
  readonly #options: RetentionOptions

  constructor(options: RetentionOptions) {
    this.#options = options
  }

  /** Deletes a batch of old records of each room. An error in one room does not stop the others. Idempotent. */
  async prune(): Promise<void> {
    const { db, log, recordsDays, auditDays } = this.#options
    const rooms: Record<string, () => Promise<number>> = {
      operations: () => operations.prune(db, recordsDays),
      generations: () => pruneGenerations(db, recordsDays),
      invitations: () => invites.pruneInvites(db),
      'tokens of hosts': () => pruneTokens(db),
      arrivals: () => pruneArrivals(db),
      replicas: () => leadership.pruneReplicas(db),
      drains: () => this.#options.pruneDrains(db, recordsDays),
      execs: () => this.#options.pruneExecs(db, recordsDays),
      activity: () => activity.prune(db),
      'webhook deliveries': () => this.#options.pruneWebhooks(db),
      'batches of input': () => this.#options.pruneInput(db, recordsDays),
      'URLs of files': () => this.#options.pruneFileUrls(db),
      audit: () => audit.prune(db, auditDays),
    }
    for (const [what, forget] of Object.entries(rooms)) {
      try {
        const count = await forget()
        if (count > 0) log.info({ what, count }, 'old records were pruned')
      } catch (err) {
        log.warn({ what, err }, 'old records could not be pruned; retrying later')
      }
    }
  }
}

// Prunes old records: each module deletes its own, in batches, and nothing that the API promises to keep. It goes on until nothing is
// left to delete, so that no client makes records faster than they go.
import type { Log } from '@dormouse/process'
import * as activity from '../activity/store.ts'
import * as audit from '../audit/store.ts'
import type { Db } from '../db/pool.ts'
import { pruneGenerations } from '../desktops/generations.ts'
import * as invites from '../hosts/invites.ts'
import { pruneArrivals } from '../hosts/reservations.ts'
import * as leadership from '../leadership/store.ts'
import * as operations from '../operations/retention.ts'

export interface RetentionOptions {
  db: Db
  log: Log
  recordsDays: number
  auditDays: number
  pruneExecs(db: Db, days: number): Promise<number>
  pruneFileUrls(db: Db): Promise<number>
  /** What wings delete of theirs. */
  pruneMore: Record<string, (db: Db) => Promise<number>>
}

/** How many batches one run deletes of each kind. The next run goes on. */
const mostRounds = 200

export class Retention {
  readonly #options: RetentionOptions

  constructor(options: RetentionOptions) {
    this.#options = options
  }

  /** Writes how many entries of the audit log were left out. */
  async noteLeftOut(): Promise<void> {
    await audit.noteLeftOut(this.#options.db)
  }

  /** Deletes old records of each module, a batch of each in turn. An error in one module does not stop the others. Idempotent. */
  async prune(): Promise<void> {
    const { db, log, recordsDays, auditDays, pruneMore } = this.#options
    const modules: Record<string, (db: Db) => Promise<number>> = {
      operations: () => operations.prune(db, recordsDays),
      generations: () => pruneGenerations(db, recordsDays),
      invitations: () => invites.pruneInvites(db),
      arrivals: () => pruneArrivals(db),
      replicas: () => leadership.pruneReplicas(db),
      execs: () => this.#options.pruneExecs(db, recordsDays),
      activity: () => activity.prune(db),
      'URLs of files': () => this.#options.pruneFileUrls(db),
      audit: () => audit.prune(db, auditDays),
      ...pruneMore,
    }
    const counts = new Map<string, number>()
    let left = Object.entries(modules)
    for (let round = 0; left.length > 0 && round < mostRounds; round++) {
      const again: typeof left = []
      for (const [what, forget] of left) {
        const count = await forget(db).catch((err: unknown) => {
          log.warn({ what, err }, 'old records could not be pruned; retrying later')
          return 0
        })
        counts.set(what, (counts.get(what) ?? 0) + count)
        if (count > 0) again.push([what, forget])
      }
      left = again
    }
    for (const [what, count] of counts) if (count > 0) log.info({ what, count }, 'old records were pruned')
  }
}

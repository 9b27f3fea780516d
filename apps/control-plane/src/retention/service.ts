// What is forgotten, and when: each room forgets its own, a piece at a time, and nothing that a caller was promised.
import type { Log } from '@dormouse/process'
import * as audit from '../audit/store.ts'
import type { Db } from '../db/pool.ts'
import * as desktops from '../desktops/store.ts'
import * as hosts from '../hosts/store.ts'
import * as leadership from '../leadership/store.ts'
import * as operations from '../operations/retention.ts'

export interface RetentionOptions {
  db: Db
  log: Log
  recordsDays: number
  auditDays: number
}

export class Retention {
  readonly #options: RetentionOptions

  constructor(options: RetentionOptions) {
    this.#options = options
  }

  /** Forgets a piece of what is old enough. Twice is the same as once. */
  async prune(): Promise<void> {
    const { db, log, recordsDays, auditDays } = this.#options
    const pruned = {
      operations: await operations.prune(db, recordsDays),
      generations: await desktops.pruneGenerations(db, recordsDays),
      invitations: await hosts.pruneInvites(db),
      replicas: await leadership.pruneReplicas(db),
      audit: await audit.prune(db, auditDays),
    }
    if (Object.values(pruned).some((count) => count > 0)) log.info(pruned, 'old records were pruned')
  }
}

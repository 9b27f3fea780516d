// The wing of bulks: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import type { LongReads } from '../db/long-reads.ts'
import type { Db } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { bulkRoutes } from './routes.ts'
import { BulkRunner, type RunnerOptions } from './runner.ts'
import { Bulks, type BulksOptions } from './service.ts'
import { prune } from './store.ts'

export interface BulkNeeds extends Omit<RunnerOptions, 'log'> {
  longReads: LongReads
  lifecycle: BulksOptions['lifecycle']
  config: { keepRecordsDays: number }
  logOf(module: string): Log
}

export function openBulk(needs: BulkNeeds) {
  const { pool, leadership, longReads, lifecycle, config } = needs
  const log = needs.logOf('bulk')
  const runner = new BulkRunner({ ...needs, log })
  const wake = () => void runner.look().catch((err: unknown) => log.debug({ err }, 'the next look finds it'))
  const bulks = new Bulks({ pool, leadership, longReads, lifecycle, wake })
  return {
    customerRoutes: (scope: App, { onMismatch }: { onMismatch(): void }) =>
      bulkRoutes(scope, { bulks, leadership, onMismatch }),
    reconcilers: [{ name: 'bulk', everyMs: 500, run: () => runner.look() }],
    prune: { bulks: (db: Db) => prune(db, config.keepRecordsDays) },
    settled: () => runner.settled(),
  }
}

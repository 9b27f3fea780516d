// The wing of drains: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import type { Db } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { drainRoutes } from './routes.ts'
import type { RunnerOptions } from './runner.ts'
import { Drains } from './service.ts'
import { prune } from './store.ts'

export interface DrainsNeeds extends Omit<RunnerOptions, 'log'> {
  config: { keepRecordsDays: number }
  logOf(module: string): Log
}

export function openDrains(needs: DrainsNeeds) {
  const drains = new Drains({ ...needs, log: needs.logOf('drains') })
  return {
    drains,
    operatorRoutes: (scope: App) => drainRoutes(scope, { drains, leadership: needs.leadership }),
    reconcilers: [{ name: 'drains', everyMs: 1_000, run: () => drains.runner.lookAtAll() }],
    prune: { drains: (db: Db) => prune(db, needs.config.keepRecordsDays) },
    settled: () => drains.runner.idle(),
  }
}

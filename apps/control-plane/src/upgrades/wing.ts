// The wing of upgrades: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import type { Db } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { upgradeRoutes } from './routes.ts'
import type { RunnerOptions } from './runner.ts'
import { Upgrades } from './service.ts'
import { prune } from './store.ts'

export interface UpgradesNeeds extends Omit<RunnerOptions, 'log'> {
  config: { keepRecordsDays: number }
  logOf(module: string): Log
}

export function openUpgrades(needs: UpgradesNeeds) {
  const upgrades = new Upgrades({ ...needs, log: needs.logOf('upgrades') })
  return {
    operatorRoutes: (scope: App) => upgradeRoutes(scope, { upgrades, leadership: needs.leadership }),
    reconcilers: [{ name: 'upgrades', everyMs: 1_000, run: () => upgrades.runner.look() }],
    prune: { upgrades: (db: Db) => prune(db, needs.config.keepRecordsDays) },
    settled: () => upgrades.runner.idle(),
  }
}

// The wing of idle desktops: what it brings to the rest of the control plane.
import type { IdleRule } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { App } from '../http/app.ts'
import { idleRoutes } from './routes.ts'
import { Idle, type IdleOptions } from './service.ts'

export interface IdleNeeds extends Omit<IdleOptions, 'reports' | 'enabled' | 'perSecond' | 'log'> {
  hostReports: IdleOptions['reports']
  config: { idle: 'on' | 'off'; idlePerSecond: number }
  logOf(module: string): Log
}

export function openIdle({ hostReports, config, logOf, ...needs }: IdleNeeds) {
  const idle = new Idle({
    ...needs,
    reports: hostReports,
    enabled: config.idle === 'on',
    perSecond: config.idlePerSecond,
    log: logOf('idle'),
  })
  return {
    idle,
    customerRoutes: (scope: App) => idleRoutes(scope, { idle, leadership: needs.leadership }),
    reconcilers: [
      { name: 'idle', everyMs: 500, run: () => idle.runner.look() },
      { name: 'activity', everyMs: 60_000, run: () => idle.storeReports() },
      { name: 'wake-locks', everyMs: 5_000, run: () => idle.pruneLocks() },
    ],
    /** Undefined if they cannot be read now: the host keeps the rules that it has. */
    idleRules: (hostId: string): Promise<IdleRule[] | undefined> => idle.rulesOf(hostId).catch(() => undefined),
  }
}

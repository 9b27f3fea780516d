// The wing of what desktops use, and of what they lack: what it brings to the rest of the control plane.
import type { Heartbeat } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { App } from '../http/app.ts'
import { figureRoutes } from './routes.ts'
import { Figures, type FiguresOptions } from './service.ts'
import { logTroubles, prune } from './troubles.ts'

export interface FiguresNeeds extends FiguresOptions {
  logOf(module: string): Log
}

export function openFigures({ logOf, ...options }: FiguresNeeds) {
  const figures = new Figures(options)
  const log = logOf('figures')
  return {
    customerRoutes: (scope: App) => figureRoutes(scope, { figures }),
    lastMetrics: figures.last.bind(figures),
    /** A heartbeat has the same again for a minute. */
    heard: (hostId: string, { troubles = [] }: Pick<Heartbeat, 'troubles'>) =>
      logTroubles(options.pool, hostId, troubles).catch((err) =>
        log.warn({ err, host: hostId }, 'troubles of guests could not be logged; the next heartbeat has them again'),
      ),
    prune: { 'troubles of guests': prune },
  }
}

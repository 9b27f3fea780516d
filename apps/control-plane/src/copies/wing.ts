// The wing of copies: what it brings to the rest of the control plane.
import type { CopiesKept } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { App } from '../http/app.ts'
import { Restores, type RestoresOptions } from './restores.ts'
import { type CopyRoutesOptions, copyRoutes } from './routes.ts'
import { Copier, type CopierOptions } from './runner.ts'
import { Copies, type CopiesOptions } from './service.ts'

export interface CopiesNeeds extends Omit<CopierOptions, 'log' | 'vault' | 'usual' | 'afterMs'> {
  engine: RestoresOptions['engine']
  desktops: CopiesOptions['desktops'] & CopyRoutesOptions['desktops']
  config: { restoreDeadlineMs: number; vault?: string | undefined; copiesKeep: CopiesKept; copyAfterMs: number }
  logOf(module: string): Log
}

export function openCopies(needs: CopiesNeeds) {
  const { vault, copiesKeep: keep, copyAfterMs: afterMs } = needs.config
  const usual = { select: null, when: 'every-sleep', keep, recover: 'manual' } as const
  const copier = new Copier({ ...needs, vault, usual, afterMs, log: needs.logOf('copies') })
  const { leadership, desktops, engine, config } = needs
  const copies = new Copies(needs)
  const restores = new Restores({ leadership, engine, deadlineMs: config.restoreDeadlineMs })
  return {
    customerRoutes: (scope: App) => copyRoutes(scope, { copies, restores, desktops, leadership }),
    reconcilers: [
      { name: 'copies', everyMs: 2_000, run: () => copier.look() },
      { name: 'copies-forgotten', everyMs: 10_000, run: () => copier.tidy() },
    ],
    settled: () => copier.settled(),
  }
}

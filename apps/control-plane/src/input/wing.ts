// The wing of input, screenshots and the clipboard: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import type { Channels } from '../agents/channels.ts'
import type { Db } from '../db/pool.ts'
import type { App } from '../http/app.ts'
import { clipboardRoutes } from './clipboard-routes.ts'
import { Clipboards } from './clipboards.ts'
import { Looks } from './looks.ts'
import { inputRoutes } from './routes.ts'
import { screenRoutes } from './screen-routes.ts'
import { ScreenReads } from './screens.ts'
import { Inputs, type InputsOptions } from './service.ts'
import { prune } from './store.ts'

export interface InputNeeds extends Omit<InputsOptions, 'looks' | 'log'> {
  channels: Channels
  config: { keepRecordsDays: number }
  logOf(module: string): Log
}

export function openInput({ channels, config, logOf, ...needs }: InputNeeds) {
  const looks = new Looks(needs.links, channels)
  const options = { ...needs, looks, log: logOf('input') }
  const inputs = new Inputs(options)
  const clipboards = new Clipboards(options)
  const screenReads = new ScreenReads(options)
  return {
    customerRoutes: (scope: App, { onMismatch }: { onMismatch(): void }) => {
      inputRoutes(scope, { inputs, onMismatch })
      screenRoutes(scope, { screenReads })
      clipboardRoutes(scope, { clipboards })
    },
    prune: { 'batches of input': (db: Db) => prune(db, config.keepRecordsDays) },
    onTakenOver: () => inputs.checkClaims(),
  }
}

// The wing of calls that wake their desktop: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import type { Desktops } from '../desktops/service.ts'
import type { Awakener } from '../guest/awaken.ts'
import type { App } from '../http/app.ts'
import { wakeWhereUsed } from './hooks.ts'
import { WakesOnUse } from './service.ts'
import { prune } from './store.ts'
import { WantedWakes, type WantedWakesOptions } from './wanted.ts'

export interface WakeOnUseNeeds extends Omit<WantedWakesOptions, 'log' | 'desktops'> {
  desktops: Desktops
  awakener: Awakener
  logOf(module: string): Log
}

export function openWakeOnUse({ awakener, logOf, ...needs }: WakeOnUseNeeds) {
  const wanted = new WantedWakes({ ...needs, log: logOf('wake-on-use') })
  const wakes = new WakesOnUse({ desktops: needs.desktops, wanted })
  awakener.give((use) => wakes.awakenFor(use))
  return {
    beforeCustomerRoutes: (scope: App) => wakeWhereUsed(scope, wakes),
    reconcilers: [{ name: 'wakes_wanted', everyMs: 250, run: () => wanted.look() }],
    prune: { wakes_wanted: prune },
  }
}

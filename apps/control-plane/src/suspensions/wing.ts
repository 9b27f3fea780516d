// The wing of suspended organisations: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import { Suspensions, type SuspensionsOptions } from './runner.ts'

export interface SuspensionsNeeds extends Omit<SuspensionsOptions, 'log'> {
  logOf(module: string): Log
}

export function openSuspensions({ pool, desktops, logOf }: SuspensionsNeeds) {
  const suspensions = new Suspensions({ pool, desktops, log: logOf('suspensions') })
  return { reconcilers: [{ name: 'suspensions', everyMs: 1_000, run: () => suspensions.look() }] }
}

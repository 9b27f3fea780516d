// The wing of schedules and ends: what it brings to the rest of the control plane.
import type { Log } from '@dormouse/process'
import { Schedules, type SchedulesOptions } from './runner.ts'

export interface SchedulesNeeds extends Omit<SchedulesOptions, 'log'> {
  logOf(module: string): Log
}

export function openSchedules({ logOf, ...needs }: SchedulesNeeds) {
  const schedules = new Schedules({ ...needs, log: logOf('schedules') })
  return { schedules, reconcilers: [{ name: 'schedules', everyMs: 500, run: () => schedules.look() }] }
}

// What the decisions about desktops stand on, made once in context.ts.
import type { Report, ReportName } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Slots } from '../mechanics/locks.ts'
import type { Digests } from './digests.ts'
import type { Journal } from './journal.ts'
import type { MemoryImages } from './memory-images.ts'

export type Say = <N extends ReportName>(name: N, report: Report<N>) => void

export interface Ground {
  installationId: string
  driver: Driver
  journal: Journal
  memory: MemoryImages
  digests: Digests
  /** Boots, restores and saves at once, in all. */
  slots: Slots
  failpoints: Failpoints
  say: Say
  log: Log
}

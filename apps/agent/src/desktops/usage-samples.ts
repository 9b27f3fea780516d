// Compares what guests use of processor and network with the thresholds above which that is activity, and keeps what they use as
// figures: both from one look at the hypervisor.
import type { DesktopId } from '@dormouse/contract'
import type { Driver, GuestUsage } from '../driver/driver.ts'
import type { Activity } from './activity.ts'
import type { Figures } from './figures.ts'
import type { FullDisks } from './full-disks.ts'
import type { Watch } from './watch.ts'

export interface Thresholds {
  /** Percent of one processor. */
  cpuPercent: number
  networkKibps: number
}

interface SampleDeps {
  driver: Pick<Driver, 'usage'>
  watch: Pick<Watch, 'running'>
  activity: Activity
  figures: Pick<Figures, 'isDue' | 'note'>
  fullDisks: Pick<FullDisks, 'used'>
  thresholds: Thresholds
}

export class UsageSamples {
  readonly #deps: SampleDeps
  #before = new Map<DesktopId, GuestUsage>()
  #sampledAt = performance.now()

  constructor(deps: SampleDeps) {
    this.#deps = deps
  }

  /** To be called every few seconds. Each sample covers the time since the one before. */
  async sample(): Promise<void> {
    const { driver, watch, activity, figures, fullDisks, thresholds } = this.#deps
    const running = watch.running().map(({ desktopId }) => desktopId)
    const whole = figures.isDue()
    const now = running.length > 0 ? await driver.usage(running, { whole }) : new Map<DesktopId, GuestUsage>()
    const passedMs = performance.now() - this.#sampledAt
    this.#sampledAt += passedMs
    for (const [desktopId, used] of now) {
      const before = this.#before.get(desktopId)
      const share = risen(before?.processorMs, used.processorMs) / passedMs
      const kibps = risen(before?.networkBytes, used.networkBytes) / 1.024 / passedMs
      activity.sampled(desktopId, 'cpu', share * 100 >= thresholds.cpuPercent)
      activity.sampled(desktopId, 'network', kibps >= thresholds.networkKibps)
    }
    this.#before = now
    fullDisks.used(now)
    if (whole) await figures.note(now)
  }
}

/** Zero if either is not known, and after a restart of the counter. */
const risen = (before: number | undefined, now: number | undefined): number =>
  before === undefined || now === undefined ? 0 : Math.max(0, now - before)

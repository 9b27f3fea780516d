// What each desktop has used in the last 24 hours: averages of what its hypervisor counts, kept on this host's disk. A desktop
// that goes to another host begins anew there.
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { type DesktopId, type MetricsPointJson, metricsKeptSecs } from '@dormouse/contract'
import { eachDone } from '@dormouse/process'
import type { GuestUsage } from '../driver/driver.ts'
import { privateFolder, unlessMissing } from '../mechanics/durable-file.ts'
import { type Figure, periodOf, readFigures, writeFigure } from './figure-ring.ts'
import { pointOf, pointsOf, type Span } from './metrics-points.ts'

interface Counted {
  usage: GuestUsage
  /** By the monotonic clock, in milliseconds. */
  at: number
  period: number
}

interface Clocks {
  unixMs(): number
  /** Never goes back. */
  monotonicMs(): number
}

const machineClocks: Clocks = { unixMs: () => Date.now(), monotonicMs: () => performance.now() }

/** A longer pause is a gap: an average over it would be shown as if it were of its end. */
const longestMs = 120_000

export class Figures {
  readonly #folder: string
  readonly #clocks: Clocks
  readonly #before = new Map<DesktopId, Counted>()
  #notedPeriod = Number.NaN

  constructor(folder: string, clocks = machineClocks) {
    this.#folder = privateFolder(folder)
    this.#clocks = clocks
  }

  /** Whether these ten seconds have no figures yet. */
  isDue(): boolean {
    return periodOf(this.#clocks.unixMs() / 1_000) !== this.#notedPeriod
  }

  /**
   * Keeps what the running desktops have used: at most one figure in ten seconds. The first look at a desktop gives none. Throws
   * what could not be written, after all others.
   */
  async note(used: ReadonlyMap<DesktopId, GuestUsage>): Promise<void> {
    for (const desktopId of this.#before.keys()) if (!used.has(desktopId)) this.#before.delete(desktopId)
    const [unixSecs, at] = [Math.floor(this.#clocks.unixMs() / 1_000), this.#clocks.monotonicMs()]
    const period = periodOf(unixSecs)
    this.#notedPeriod = period
    await eachDone(used, async ([desktopId, usage]) => {
      const before = this.#before.get(desktopId)
      if (before?.period === period) return
      this.#before.set(desktopId, { usage, at, period })
      const passedMs = at - (before?.at ?? Number.NEGATIVE_INFINITY)
      if (!before || passedMs > longestMs || hasRestarted(before.usage, usage)) return
      await writeFigure(this.#path(desktopId), figureOf(unixSecs, passedMs, before.usage, usage))
    })
  }

  /** The points of a span, or the latest one that is kept if there is no span. */
  async points(desktopId: DesktopId, span: Span | null): Promise<MetricsPointJson[]> {
    // After the clock was set back, figures of the future are left.
    const now = Math.floor(this.#clocks.unixMs() / 1_000)
    const from = Math.max(now - metricsKeptSecs, Math.ceil(span?.start ?? 0))
    const to = Math.min(now, span === null ? now : Math.ceil(span.end) - 1)
    if (to < from) return []
    const figures = await readFigures(this.#path(desktopId), from, to)
    return span === null ? figures.slice(-1).map((figure) => pointOf(figure.at, [figure])) : pointsOf(figures, span)
  }

  async remove(desktopId: DesktopId): Promise<void> {
    this.#before.delete(desktopId)
    await rm(this.#path(desktopId), { force: true })
  }

  /** Removes the figures of desktops of which this host has nothing. */
  async prune(isHere: (desktopId: DesktopId) => boolean): Promise<void> {
    const names = (await readdir(this.#folder).catch(unlessMissing)) ?? []
    const gone = names.map((name) => name.slice(0, -suffix.length)).filter((desktopId) => !isHere(desktopId))
    await eachDone(gone, (desktopId) => this.remove(desktopId))
  }

  #path(desktopId: DesktopId): string {
    return join(this.#folder, `${desktopId}${suffix}`)
  }
}

const suffix = '.ring'

const counters = ['ranMs', 'readBytes', 'writtenBytes', 'receivedBytes', 'sentBytes'] as const

/** The process is another one, such as after a sleep: how much its counters have risen is not known. */
const hasRestarted = (before: GuestUsage, now: GuestUsage): boolean =>
  counters.some((name) => (now[name] ?? Number.POSITIVE_INFINITY) < (before[name] ?? 0))

function figureOf(at: number, passedMs: number, before: GuestUsage, now: GuestUsage): Figure {
  const perMs = (name: (typeof counters)[number]): number | null => {
    const [earlier, later] = [before[name], now[name]]
    return earlier === undefined || later === undefined ? null : (later - earlier) / passedMs
  }
  const perSec = (name: (typeof counters)[number]) => scaled(perMs(name), 1_000)
  return {
    at,
    cpuPercent: scaled(perMs('ranMs'), 100),
    memoryUsedMiB: now.memoryUsedMiB ?? null,
    memoryMiB: now.memoryMiB ?? null,
    diskRead: perSec('readBytes'),
    diskWritten: perSec('writtenBytes'),
    networkReceived: perSec('receivedBytes'),
    networkSent: perSec('sentBytes'),
  }
}

const scaled = (value: number | null, by: number): number | null => (value === null ? null : value * by)

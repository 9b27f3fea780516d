// What desktops have used, as their hosts have kept it. Any replica with a link to the host can serve this.
import {
  type DesktopJson,
  type LastMetricsJson,
  type MetricsJson,
  metricsKeptSecs,
  metricsPointsMax,
  metricsStepMinSecs,
  Refusal,
  refuseField,
} from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { Desktops } from '../desktops/service.ts'
import * as ledger from '../ledger/store.ts'
import type { Customer } from '../principals/service.ts'
import { gapsOf, type Span } from './gaps.ts'

export interface FiguresOptions {
  pool: Pool
  desktops: Pick<Desktops, 'get'>
  links: Pick<Links, 'command'>
}

const timeoutMs = 10_000
/** A desktop is shown without its figures if its host takes longer. */
const lastTimeoutMs = 3_000
const usualSpanSecs = 3_600
const usualPoints = 120
/** More periods than a desktop has in a day. What is before the latest of them counts as asleep. */
const mostPeriods = 2_000

export class Figures {
  readonly #options: FiguresOptions

  constructor(options: FiguresOptions) {
    this.#options = options
  }

  async of(caller: Customer, desktopId: string, query: Partial<Span>, requestId: string): Promise<MetricsJson> {
    const { desktops, links, pool } = this.#options
    const now = Math.ceil(Date.now() / 1_000)
    const span = spanOf({ ...query, end: query.end ?? now })
    const { hostId, state } = await desktops.get(caller, desktopId)
    const isGone = hostId === null || state === 'destroyed'
    const asked = isGone
      ? { points: [] }
      : links.command(hostId, 'desktop.metrics', { desktopId, span }, { timeoutMs, requestId })
    const periods = retryWhileUnavailable(() => ledger.awakePeriods(pool, { desktopId, ...span, limit: mostPeriods }))
    const [{ points }, awake] = await Promise.all([asked, periods])
    return { desktop_id: desktopId, ...span, points, missing: gapsOf(span, points, { awake, hostId, now }) }
  }

  /** The latest; null if its host has kept nothing, or does not say so now. */
  async last({ id, host_id: hostId, state }: DesktopJson, requestId: string): Promise<LastMetricsJson | null> {
    if (hostId === null || state === 'destroyed') return null
    const payload = { desktopId: id, span: null }
    try {
      const options = { timeoutMs: lastTimeoutMs, requestId }
      const { points } = await this.#options.links.command(hostId, 'desktop.metrics', payload, options)
      return points.at(-1) ?? null
    } catch (error) {
      if (error instanceof Refusal) return null
      throw error
    }
  }
}

function spanOf({ start: from, end: until, step: wanted }: Partial<Span> & { end: number }): Span {
  const start = from ?? Math.max(0, until - usualSpanSecs)
  if (start >= until)
    refuseField(from === undefined ? 'end' : 'start', `start (${start}) must be before end (${until})`)
  const secs = until - start
  if (secs > metricsKeptSecs) refuseField('start', `must be at most 24 h before end (${until})`)
  const step =
    wanted ?? Math.max(metricsStepMinSecs, Math.ceil(secs / usualPoints / metricsStepMinSecs) * metricsStepMinSecs)
  const count = Math.ceil(secs / step)
  if (count > metricsPointsMax)
    refuseField(
      'step',
      `would give ${count} points of at most ${metricsPointsMax}; send ${Math.ceil(secs / metricsPointsMax)} or more`,
    )
  return { start, end: until, step }
}

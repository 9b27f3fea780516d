// Why steps have no figures. Pure.
import { type MetricsGap, type MetricsGapJson, type MetricsPointJson, metricsKeptSecs } from '@dormouse/contract'
import type { AwakePeriod } from '../ledger/store.ts'

/** Unix seconds, the end not included, and seconds for one point. */
export interface Span {
  start: number
  end: number
  step: number
}

interface Known {
  /** Oldest first, as the ledger has them. */
  awake: readonly AwakePeriod[]
  /** Where the desktop is now. */
  hostId: string | null
  now: number
}

/** The steps without a point, those in a row with the same reason as one. What is in the future is not missing. */
export function gapsOf(span: Span, points: readonly Pick<MetricsPointJson, 'at'>[], known: Known): MetricsGapJson[] {
  const has = new Set(points.map(({ at }) => Math.round((at - span.start) / span.step)))
  const until = Math.min(span.end, known.now)
  const gaps: MetricsGapJson[] = []
  for (let index = 0; span.start + index * span.step < until; index++) {
    if (has.has(index)) continue
    const start = span.start + index * span.step
    const end = Math.min(until, start + span.step)
    const reason = reasonOf({ start, end }, known)
    const before = gaps.at(-1)
    if (before?.reason === reason && before.end === start) before.end = end
    else gaps.push({ start, end, reason })
  }
  return gaps
}

/** What holds for most of it. */
function reasonOf(step: { start: number; end: number }, { awake, hostId, now }: Known): MetricsGap {
  const secs = { here: 0, elsewhere: 0 }
  for (const period of awake) {
    const overlap = Math.min(period.end, step.end) - Math.max(period.start, step.start)
    if (overlap > 0) secs[period.hostId === hostId ? 'here' : 'elsewhere'] += overlap
  }
  const asleep = step.end - step.start - secs.here - secs.elsewhere
  if (asleep >= Math.max(secs.here, secs.elsewhere)) return 'asleep'
  if (secs.elsewhere > secs.here) return 'other_host'
  return step.start < now - metricsKeptSecs ? 'expired' : 'not_measured'
}

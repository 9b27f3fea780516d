// Sums figures up as the points that the API shows. Pure.
import type { MetricsPointJson } from '@dormouse/contract'
import type { Figure } from './figure-ring.ts'

/** Unix seconds, the end not included, and seconds for one point. */
export interface Span {
  start: number
  end: number
  step: number
}

/** One point for each step in which something was measured; the steps begin at `start`. Figures come oldest first. */
export function pointsOf(figures: readonly Figure[], { start, step }: Span): MetricsPointJson[] {
  const steps = Map.groupBy(figures, ({ at }) => Math.floor((at - start) / step))
  return [...steps].map(([index, some]) => pointOf(start + index * step, some))
}

export function pointOf(at: number, figures: readonly Figure[]): MetricsPointJson {
  const known = (name: keyof Figure) => figures.map((figure) => figure[name]).filter((value) => value !== null)
  const average = (name: keyof Figure, decimals = 0): number | null => {
    const values = known(name)
    return values.length === 0 ? null : rounded(values.reduce((sum, value) => sum + value, 0) / values.length, decimals)
  }
  const highest = (name: keyof Figure): number | null => {
    const values = known(name)
    return values.length === 0 ? null : rounded(Math.max(...values), 0)
  }
  return {
    at,
    cpu_percent: average('cpuPercent', 1),
    memory_used_mib: highest('memoryUsedMiB'),
    memory_mib: highest('memoryMiB'),
    disk_read_bytes_per_sec: average('diskRead'),
    disk_write_bytes_per_sec: average('diskWritten'),
    network_received_bytes_per_sec: average('networkReceived'),
    network_sent_bytes_per_sec: average('networkSent'),
  }
}

const rounded = (value: number, decimals: number): number => Number(value.toFixed(decimals))

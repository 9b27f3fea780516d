// A histogram for what is observed at every request: each series counts in an array of its own, without building or comparing
// labels. Prometheus reads it like any other.
import type { Histogram, Registry } from 'prom-client'

type Labels = Readonly<Record<string, string | number>>

/** One combination of labels. */
export class Series {
  readonly labels: Labels
  /** By the index of the first bucket that it fits into; the last element counts what fits into none. */
  readonly counts: Float64Array
  readonly #bounds: readonly number[]
  sum = 0

  constructor(labels: Labels, bounds: readonly number[]) {
    this.labels = labels
    this.#bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(value: number): void {
    let at = 0
    while (at < this.#bounds.length && value > this.#bounds[at]!) at++
    this.counts[at]!++
    this.sum += value
  }
}

export interface DurationsOptions {
  name: string
  help: string
  /** The upper bounds of the buckets, ascending. */
  buckets: readonly number[]
  registry: Registry
}

export class Durations {
  readonly type = 'histogram'
  readonly name: string
  readonly help: string
  readonly #bounds: readonly number[]
  readonly #series: Series[] = []

  constructor({ name, help, buckets, registry }: DurationsOptions) {
    this.name = name
    this.help = help
    this.#bounds = buckets
    // The registry calls `get` of whatever is registered, and reads `name`.
    registry.registerMetric(this as unknown as Histogram)
  }

  /** Begins a series. The caller begins each only once. */
  series(labels: Labels): Series {
    const begun = new Series(labels, this.#bounds)
    this.#series.push(begun)
    return begun
  }

  /** Called by the registry. */
  async get() {
    const { name, help, type } = this
    return { name, help, type, values: this.#series.flatMap((series) => this.#valuesOf(series)) }
  }

  #valuesOf({ labels, counts, sum }: Series) {
    let below = 0
    const buckets = [...counts].map((count, at) => {
      below += count
      return { metricName: `${this.name}_bucket`, labels: { le: this.#bounds[at] ?? '+Inf', ...labels }, value: below }
    })
    return [
      ...buckets,
      { metricName: `${this.name}_sum`, labels, value: sum },
      { metricName: `${this.name}_count`, labels, value: below },
    ]
  }
}

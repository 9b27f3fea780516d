// Guarantee: its output is, byte for byte, that of a common histogram with the same observations.
import { Histogram, Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { Durations } from './durations.ts'

const config = { name: 'x_seconds', help: 'x', labelNames: ['route', 'status'], buckets: [0.01, 0.1, 1] }

test('it shows the same as a common histogram, bounds and what exceeds them included', async () => {
  const [own, common] = [new Registry(), new Registry()]
  const durations = new Durations({ ...config, registry: own })
  const histogram = new Histogram({ ...config, registers: [common] })
  for (const labels of [
    { route: '/a', status: 200 },
    { route: '/b', status: 404 },
  ]) {
    const series = durations.series(labels)
    for (const secs of [0, 0.01, 0.0100001, 0.5, 1, 7, 7]) {
      series.observe(secs)
      histogram.observe(labels, secs)
    }
  }
  expect(await own.metrics()).toBe(await common.metrics())
})

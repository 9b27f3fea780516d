// What a desktop has used of its processor, memory, disk and network, as its host has kept it: query and response.
import { z } from 'zod'
import { listOf } from './bounds.ts'
import { id } from './ids.ts'
import { lastUnixSecs, unixSecs } from './unix-secs.ts'

/** A host measures at most once in this time. */
export const metricsStepMinSecs = 10
/** How long a host keeps what it has measured, and the longest time between `start` and `end`. */
export const metricsKeptSecs = 86_400
/** The most points of one response. */
export const metricsPointsMax = 1_440

export const metricsQuery = z.object({
  start: unixSecs.optional().describe('Unix seconds, whole or decimal; by default an hour before `end`'),
  end: unixSecs.optional().describe('Unix seconds, whole or decimal, at most 24 h after `start`; by default now'),
  step: z.coerce
    .number('must be seconds, from 10 to 86400')
    .int()
    .min(metricsStepMinSecs)
    .max(metricsKeptSecs)
    .optional()
    .meta({ type: 'integer' })
    .describe(
      `Seconds that one point covers, from ${metricsStepMinSecs}; at most ${metricsPointsMax} points. By default so many that there are about 120 points`,
    ),
})

const plausible = z.number().min(0).max(Number.MAX_SAFE_INTEGER).nullable()
const rate = plausible.describe('The average; null where it is not known')

const figures = {
  cpu_percent: plausible.describe(
    'The average, in percent of one vCPU: a desktop that keeps two busy has 200. Null where it is not known',
  ),
  memory_used_mib: plausible.describe(
    'The highest, as the guest reports it: without what its caches could give back. Null where the guest does not report it',
  ),
  memory_mib: plausible.describe('What the desktop has; null where it is not known'),
  disk_read_bytes_per_sec: rate,
  disk_write_bytes_per_sec: rate,
  network_received_bytes_per_sec: rate,
  network_sent_bytes_per_sec: rate,
}

const exampleFigures = {
  cpu_percent: 37.5,
  memory_used_mib: 311,
  memory_mib: 512,
  disk_read_bytes_per_sec: 0,
  disk_write_bytes_per_sec: 40_960,
  network_received_bytes_per_sec: 1_840,
  network_sent_bytes_per_sec: 620,
}

export const metricsPointJson = z
  .object({ at: z.number().min(0).max(lastUnixSecs).describe('Unix seconds at which its step begins'), ...figures })
  .meta({ id: 'MetricsPoint', examples: [{ at: 1_767_225_600, ...exampleFigures }] })
export type MetricsPointJson = z.infer<typeof metricsPointJson>

export const lastMetricsJson = z
  .object({ at: z.number().min(0).max(lastUnixSecs).describe('Unix seconds at which it was measured'), ...figures })
  .meta({ id: 'LastMetrics', examples: [{ at: 1_767_225_605, ...exampleFigures }] })
export type LastMetricsJson = z.infer<typeof lastMetricsJson>

const metricsGaps = ['asleep', 'other_host', 'expired', 'not_measured'] as const
export type MetricsGap = (typeof metricsGaps)[number]

export const metricsGapJson = z
  .object({
    start: z.number().min(0).describe('Unix seconds'),
    end: z.number().min(0).describe('Unix seconds'),
    reason: z
      .enum(metricsGaps)
      .describe(
        '`asleep`: the desktop was not awake. `other_host`: it was awake on another host than now, and figures stay with the host that measured them. `expired`: longer ago than a host keeps them. `not_measured`: it was awake, and nothing was kept, such as in the first seconds after a wake. A later release may add reasons',
      ),
  })
  .meta({ id: 'MetricsGap', examples: [{ start: 1_767_225_630, end: 1_767_229_200, reason: 'asleep' }] })
export type MetricsGapJson = z.infer<typeof metricsGapJson>

export const metricsJson = z
  .object({
    desktop_id: id,
    start: z.number().min(0).describe('Unix seconds'),
    end: z.number().min(0).describe('Unix seconds'),
    step: z.int().min(1).describe('Seconds that one point covers'),
    points: z
      .array(metricsPointJson)
      .describe('Oldest first. A step in which nothing was measured has no point: `missing` says why'),
    missing: z.array(metricsGapJson).describe('What has no points, oldest first'),
  })
  .meta({
    id: 'Metrics',
    examples: [
      {
        desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80',
        ...{ start: 1_767_225_600, end: 1_767_229_200, step: 30 },
        points: [{ at: 1_767_225_600, ...exampleFigures }],
        missing: [{ start: 1_767_225_630, end: 1_767_229_200, reason: 'asleep' }],
      },
    ],
  })
export type MetricsJson = z.infer<typeof metricsJson>

export const desktopQuery = z.object({
  include: z.enum(['metrics']).optional().describe('`metrics`: with what its host has measured last'),
})

export const metricsCommands = {
  /** What the host has kept of the desktop in that time; without a time, the latest that it has kept. Empty if there is nothing. */
  'desktop.metrics': {
    payload: z.object({
      desktopId: id,
      span: z.object({ start: z.number(), end: z.number(), step: z.int().min(1) }).nullable(),
    }),
    result: z.object({ points: listOf(metricsPointJson, metricsPointsMax) }),
  },
} as const

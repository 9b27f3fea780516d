// Traces: what a piece of work consists of, from process to process. Off unless there is a collector: then nothing is
// measured, and OpenTelemetry is not even loaded.

import { z } from 'zod'
import { setting } from './config.ts'
import type { Log } from './log.ts'
import type { SpanStart, Tracing } from './spans.ts'
import { currentSpan, withSpan } from './work-context.ts'

export interface TracingOptions {
  /** Base URL of a collector that takes OTLP over HTTP; without one there are no traces. */
  url: string | undefined
  service: string
  /** Which one of several. */
  instance: string
  /** The share of the traces beginning here that is recorded, from 0 to 1. */
  share: number
  /** Whether the share applies to requests with a traceparent, too: their senders are no programs of ours. */
  foreignParents: boolean
  log: Log
}

/** Undefined if tracing is off. */
export async function openTracing({ url, ...options }: TracingOptions): Promise<Tracing | undefined> {
  if (!url) return undefined
  const { OpenTelemetry } = await import('./open-telemetry.ts')
  return new OpenTelemetry({ ...options, url: `${url.replace(/\/+$/, '')}/v1/traces` })
}

/** Runs the work in a span of its own. */
export async function traced<T>(tracing: Tracing | undefined, start: SpanStart, work: () => Promise<T>): Promise<T> {
  if (!tracing) return work()
  const span = tracing.start({
    ...start,
    parent: start.parent === undefined ? currentSpan()?.traceparent : start.parent,
  })
  try {
    const result = await withSpan(span, work)
    span.end()
    return result
  } catch (error) {
    span.end(error)
    throw error
  }
}

/** The settings of tracing, under names with this prefix. */
export const tracingSettings = (prefix: string) => ({
  otlpUrl: setting(
    `${prefix}OTLP_URL`,
    'base URL of a collector that takes traces by OTLP over HTTP, such as http://127.0.0.1:4318; without it there are no traces',
    z.url({ protocol: /^https?$/ }).optional(),
  ),
  traceShare: setting(
    `${prefix}TRACE_SHARE`,
    'share of traces that are recorded, from 0 to 1',
    z.coerce.number().min(0).max(1).default(1),
  ),
})

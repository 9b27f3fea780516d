// Traces by OpenTelemetry, sent to a collector. Loaded only if tracing is on.
import { type Context, ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  type IdGenerator,
  ParentBasedSampler,
  RandomIdGenerator,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { Log } from './log.ts'
import type { SpanStart, Tracing } from './spans.ts'
import type { Span } from './work-context.ts'

interface Options {
  url: string
  service: string
  instance: string
  share: number
  foreignParents: boolean
  log: Log
}

const kinds = { server: SpanKind.SERVER, client: SpanKind.CLIENT, internal: SpanKind.INTERNAL }
const sendEveryMs = 1_000
const sendTimeoutMs = 5_000
const closeMs = 2_000
const complainEveryMs = 60_000

export class OpenTelemetry implements Tracing {
  readonly #provider: TracerProvider
  readonly #ids = new Ids()

  constructor({ url, service, instance, share, foreignParents, log }: Options) {
    const root = new TraceIdRatioBasedSampler(share)
    const exporter = complaining(new OTLPTraceExporter({ url, timeoutMillis: sendTimeoutMs }), url, log)
    this.#provider = new TracerProvider({
      resource: resourceFromAttributes({ 'service.name': service, 'service.instance.id': instance }),
      sampler: new ParentBasedSampler(foreignParents ? { root, remoteParentSampled: root } : { root }),
      idGenerator: this.#ids,
      spanProcessors: [new BatchSpanProcessor({ exporter, scheduledDelayMillis: sendEveryMs })],
    })
  }

  start({ name, kind, parent, traceId, attributes }: SpanStart): Span {
    this.#ids.next = asTraceId(traceId)
    const options = { kind: kinds[kind], attributes: attributes ?? {} }
    const span = this.#provider.getTracer('dormouse').startSpan(name, options, contextOf(parent))
    this.#ids.next = undefined
    const own = span.spanContext()
    return {
      traceparent: `00-${own.traceId}-${own.spanId}-0${own.traceFlags & 1}`,
      end: (error, more) => {
        if (more) span.setAttributes(more)
        if (error !== undefined) {
          const message = error instanceof Error ? error.message : String(error)
          span.setStatus({ code: SpanStatusCode.ERROR, message })
        }
        span.end()
      },
    }
  }

  /** Waits for the collector, but not longer than a stop may take. */
  async close(): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, closeMs)
    await Promise.race([this.#provider.shutdown().catch(() => undefined), late.promise])
    clearTimeout(timer)
  }
}

/** Random ids, except for a trace whose id was chosen. */
class Ids implements IdGenerator {
  readonly #random = new RandomIdGenerator()
  next: string | undefined

  generateTraceId(): string {
    return this.next ?? this.#random.generateTraceId()
  }

  generateSpanId(): string {
    return this.#random.generateSpanId()
  }
}

function asTraceId(uuid: string | undefined): string | undefined {
  const id = uuid?.replaceAll('-', '').toLowerCase()
  return id && /^(?!0{32})[\da-f]{32}$/.test(id) ? id : undefined
}

function contextOf(traceparent: string | null | undefined): Context {
  const form = /^(?!ff)[\da-f]{2}-(?!0{32})([\da-f]{32})-(?!0{16})([\da-f]{16})-([\da-f]{2})(?:-|$)/
  const [, traceId, spanId, flags] = form.exec(traceparent ?? '') ?? []
  if (!traceId || !spanId || !flags) return ROOT_CONTEXT
  const parent = { traceId, spanId, traceFlags: Number.parseInt(flags, 16) & 1, isRemote: true }
  return trace.setSpanContext(ROOT_CONTEXT, parent)
}

/** Logs that the collector is unreachable, once a minute. The spans are lost. */
function complaining(exporter: SpanExporter, url: string, log: Log): SpanExporter {
  let quietUntil = 0
  return {
    export: (spans, done) =>
      exporter.export(spans, (result) => {
        if (result.error && performance.now() >= quietUntil) {
          quietUntil = performance.now() + complainEveryMs
          log.warn({ url, lost: spans.length, why: result.error.message }, 'traces could not be sent to the collector')
        }
        done(result)
      }),
    forceFlush: async () => exporter.forceFlush?.(),
    shutdown: () => exporter.shutdown(),
  }
}

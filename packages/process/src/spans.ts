// The interface of a tracer. Knows no OpenTelemetry.
import type { Span } from './work-context.ts'

export interface SpanStart {
  name: string
  kind: 'server' | 'client' | 'internal'
  /** The traceparent of the span above it, if that is not the current one; null for none. An invalid one counts as none. */
  parent?: string | null | undefined
  /** A UUID that names the trace, if it begins here: whoever continues the work later continues the trace. */
  traceId?: string | undefined
  attributes?: Readonly<Record<string, string | number | undefined>>
}

export interface Tracing {
  /** Starts a span. It does not become the current one; `withSpan` does that. */
  start(span: SpanStart): Span
  /** Sends what was not sent yet, within seconds. */
  close(): Promise<void>
}

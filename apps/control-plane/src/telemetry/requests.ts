// Watches HTTP requests: how long each took, one log line each, and its id in every line that it causes. Knows no route. What
// is the same for all requests of a route is prepared once, because this runs at every request.
import { type BulkFields, bulkLog, type Log, type Span, type Tracing, withLogFields, withSpan } from '@dormouse/process'
import type { FastifyReply, FastifyRequest, onRequestHookHandler, onResponseHookHandler, RouteOptions } from 'fastify'
import type { Registry } from 'prom-client'
import type { App } from '../http/app.ts'
import { Durations, type Series } from './durations.ts'

export interface RequestTelemetryOptions {
  registry: Registry
  /** For one line per request. */
  log: Log
  tracing: Tracing | undefined
}

/** Monitoring requests these every few seconds. */
const quietRoutes = new Set(['/healthz', '/readyz', '/metrics'])
/** All unknown paths count as one route. */
const unknownRoute = 'unknown'
const withBody = new Set(['POST', 'PUT', 'PATCH'])
/** The subject of an access token is its issuer's text. */
const maxCallerChars = 200

/** Watches the requests of every route and scope that is registered after this. */
export function watchRequests(app: App, options: RequestTelemetryOptions): void {
  const durations = new Durations({
    name: 'dormouse_http_request_duration_seconds',
    help: 'From the headers of a request until the end of its response',
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120],
    registry: options.registry,
  })
  const reporters = new Map<string, onResponseHookHandler>()
  const reporterOf = (method: string, route: string) => {
    const name = `${method} ${route}`
    const reporter = reporters.get(name) ?? reporterOfRoute(durations, options.log, method, route)
    reporters.set(name, reporter)
    return reporter
  }
  const spans = new WeakMap<FastifyRequest, Span>()
  const inContext: onRequestHookHandler = (request, _reply, done) => {
    const span = spans.get(request)
    withLogFields({ request: request.id }, span ? () => withSpan(span, done) : done)
  }
  if (options.tracing) trace(app, options.tracing, spans)
  app.addHook('onRequest', inContext)
  app.addHook('onRoute', (route) => {
    const methods = [route.method].flat()
    // Reading a body leaves the context of the request.
    if (methods.some((method) => withBody.has(method))) append(route, 'preValidation', inContext)
    const [only] = methods
    if (methods.length === 1) append(route, 'onResponse', reporterOf(only!, route.url))
    else
      append(
        route,
        'onResponse',
        atEnd((request) => reporterOf(request.method, route.url)),
      )
  })
  const unknown = atEnd((request) => reporterOf(request.method, unknownRoute))
  app.addHook('onResponse', function (request, reply, done) {
    if (request.is404) unknown.call(this, request, reply, done)
    else done()
  })
}

/** Begins a span for each request, below the client's if it sent one. */
function trace(app: App, tracing: Tracing, spans: WeakMap<FastifyRequest, Span>): void {
  app.addHook('onRequest', (request, _reply, done) => {
    const { id, method, routeOptions, headers } = request
    const name = `${method} ${routeOptions.url ?? unknownRoute}`
    const { traceparent } = headers
    const parent = typeof traceparent === 'string' ? traceparent : null
    spans.set(request, tracing.start({ name, kind: 'server', parent, traceId: id, attributes: { request: id } }))
    done()
  })
  app.addHook('onResponse', (request, { statusCode }, done) => {
    const failed = statusCode >= 500 ? new Error(`status ${statusCode}`) : undefined
    spans.get(request)?.end(failed, { 'http.response.status_code': statusCode })
    done()
  })
}

/** A hook that finds its reporter at each request. */
const atEnd = (reporterOf: (request: FastifyRequest) => onResponseHookHandler): onResponseHookHandler =>
  function (request, reply, done) {
    reporterOf(request).call(this, request, reply, done)
  }

/** Runs the hook after those that the route has already. */
function append<N extends 'preValidation' | 'onResponse'>(route: RouteOptions, name: N, hook: RouteOptions[N]): void {
  const before = route[name]
  route[name] = [...(before === undefined ? [] : [before].flat()), hook] as RouteOptions[N]
}

function reporterOfRoute(durations: Durations, log: Log, method: string, route: string): onResponseHookHandler {
  const write = bulkLog(log, { module: 'http', method, route })
  const level = quietRoutes.has(route) ? 'debug' : 'info'
  const byStatus = new Map<number, Series>()
  const begin = (status: number) => {
    const series = durations.series({ method, route, status })
    byStatus.set(status, series)
    return series
  }
  return (request, reply, done) => {
    const { statusCode: status, elapsedTime: ms } = reply
    const series = byStatus.get(status) ?? begin(status)
    series.observe(ms / 1_000)
    write(level, fieldsOf(request, reply, status, ms), 'request')
    done()
  }
}

/** Neither the path, which may contain names of files, nor the query. */
function fieldsOf({ principal, id }: FastifyRequest, reply: FastifyReply, status: number, ms: number): BulkFields {
  const bytes = reply.getHeader('content-length')
  return {
    status,
    ms: Math.round(ms * 10) / 10,
    org: principal?.kind === 'customer' ? principal.orgId : undefined,
    caller: principal?.subject?.slice(0, maxCallerChars),
    bytes: bytes === undefined ? undefined : Number(bytes),
    aborted: reply.raw.writableFinished ? undefined : true,
    request: id,
  }
}

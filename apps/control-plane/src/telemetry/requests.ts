// Watches HTTP requests: how long each took, one log line each, and its id in every line that it causes. Knows no route.
import { type Log, withLogFields } from '@dormouse/process'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Histogram, type Registry } from 'prom-client'
import type { App } from '../http/app.ts'

export interface RequestTelemetryOptions {
  registry: Registry
  /** For one line per request. */
  log: Log
}

/** Monitoring asks for these every few seconds. */
const quietRoutes = new Set(['/healthz', '/readyz', '/metrics'])
/** All unknown paths count as one route. */
const unknownRoute = 'unknown'

/** Watches the requests of every scope that is registered after this. */
export function watchRequests(app: App, { registry, log }: RequestTelemetryOptions): void {
  const durations = new Histogram({
    name: 'dormouse_http_request_duration_seconds',
    help: 'From the headers of a request until the end of its response',
    labelNames: ['method', 'route', 'status'],
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 120],
    registers: [registry],
  })
  app.addHook('onRequest', (request, _reply, done) => withLogFields({ request: request.id }, done))
  // Reading a body leaves the context of the request.
  app.addHook('preValidation', (request, _reply, done) => withLogFields({ request: request.id }, done))
  app.addHook('onResponse', (request, reply, done) => {
    const route = request.routeOptions.url ?? unknownRoute
    durations.observe({ method: request.method, route, status: reply.statusCode }, reply.elapsedTime / 1_000)
    const level = quietRoutes.has(route) ? 'debug' : 'info'
    if (log.isLevelEnabled(level)) log[level](lineOf(request, reply, route), 'request')
    done()
  })
}

/** Without the path, which may contain names of files, and without the query. */
function lineOf(request: FastifyRequest, reply: FastifyReply, route: string): object {
  const { principal, method, id } = request
  const bytes = reply.getHeader('content-length')
  return {
    method,
    route,
    status: reply.statusCode,
    ms: Math.round(reply.elapsedTime * 10) / 10,
    ...(principal?.kind === 'customer' && { org: principal.orgId }),
    ...(principal?.subject && { caller: principal.subject }),
    ...(bytes !== undefined && { bytes: Number(bytes) }),
    ...(!reply.raw.writableFinished && { aborted: true }),
    request: id,
  }
}

// The HTTP application: every scope with its door and its routes. Sees all, decides nothing.
import { notFound } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { Counter, Gauge, Registry } from 'prom-client'
import { auditRoutes } from './audit/routes.ts'
import type { Pool } from './db/pool.ts'
import { desktopAdminRoutes, desktopRoutes, operationAdminRoutes } from './desktops/routes.ts'
import type { Desktops } from './desktops/service.ts'
import { fileRoutes, guestRoutes } from './guest/routes.ts'
import type { Guests } from './guest/service.ts'
import { enrolRoutes, hostAdminRoutes } from './hosts/routes.ts'
import type { Hosts } from './hosts/service.ts'
import type { App } from './http/app.ts'
import type { AuditTrail } from './http/audit-trail.ts'
import type { Connections } from './http/connections.ts'
import type { InFlightBytes } from './http/in-flight-bytes.ts'
import type { InFlightRequests } from './http/in-flight-requests.ts'
import { contractBodyBytes, takeBodiesOf } from './http/json-bodies.ts'
import { notePaths, refuseOtherMethods } from './http/methods.ts'
import { publishOpenApi } from './http/openapi.ts'
import { sendProblem } from './http/problems.ts'
import { RateLimit } from './http/rate-limit.ts'
import { serveReadingPage } from './http/reading-page.ts'
import { type AuthenticateUnroutable, createServer, pathOf } from './http/server.ts'
import type { UnauthenticatedClients } from './http/unauthenticated-clients.ts'
import type { Leadership } from './leadership/leadership.ts'
import type { Readiness } from './leadership/readiness.ts'
import type { Waiters } from './operations/waiters.ts'
import { callerOf, customersOnly, operatorsOnly } from './principals/authentication.ts'
import { principalRoutes } from './principals/routes.ts'
import type { Principals } from './principals/service.ts'
import { recoveryAdminRoutes } from './recovery/routes.ts'
import type { Recovery } from './recovery/service.ts'
import { removalRoutes } from './removals/routes.ts'
import type { Removals } from './removals/service.ts'
import { serveScreenPage } from './streams/page.ts'
import { streamRoutes } from './streams/routes.ts'
import type { Streams } from './streams/service.ts'
import { usageRoutes } from './usage/routes.ts'
import type { Usage } from './usage/service.ts'

export interface AppParts {
  acts: AuditTrail
  inFlight: InFlightRequests
  pool: Pool
  log: Log
  leadership: Leadership
  readiness: Readiness
  desktops: Desktops
  guests: Guests
  streams: Streams
  hosts: Hosts
  removals: Removals
  recovery: Recovery
  principals: Principals
  waiters: Waiters
  usage: Usage
  /** Where browsers find this service. */
  origin: string | undefined
  /** Everybody without a credential, at every door. */
  strangers: UnauthenticatedClients
  connections: Connections
  heldBytes: InFlightBytes
  /** Requests a second of one credential. */
  rateLimitPerSecond: number
  /** Desktops that an organisation may have for which no operator has set another number. */
  maxDesktopsPerOrg: number
  /** Addresses and ranges of the proxies that say who their callers are. */
  trustedProxies: string[]
  /** For how long not a byte of a body, or of an answer, may move. */
  stallMs: number
}

/** The application, ready to listen. A room takes of the parts what its routes name, and sees no other. */
export async function createApp(parts: AppParts): Promise<App> {
  const { log, stallMs, trustedProxies, principals, strangers, connections, heldBytes } = parts
  const unroutable: AuthenticateUnroutable = async (request, reply) => {
    const path = pathOf(request.url)
    if (path.startsWith('/v1/')) await customers.call(app, request, reply)
    else if (path.startsWith('/admin/v1/')) await operators.call(app, request, reply)
    else strangers.count(request.raw)
  }
  const app = createServer({ log, stallMs, trustedProxies, hold: (...bytes) => heldBytes.hold(...bytes), unroutable })
  connections.watch(app)
  heldBytes.watch(app)
  parts.inFlight.watch(app)
  const doors = { principals, strangers, connections, callers: new RateLimit(parts.rateLimitPerSecond) }
  const [customers, operators] = [customersOnly(doors), operatorsOnly(doors)]
  const paths = notePaths(app)
  const registry = new Registry()
  const mismatches = new Counter({
    name: 'dormouse_idempotency_mismatches_total',
    help: 'Requests that repeated an Idempotency-Key with another body',
    registers: [registry],
  })
  showHeld(registry, parts)
  const desktopParts = { ...parts, onMismatch: () => mismatches.inc() }
  await publishOpenApi(app)

  await app.register(
    async (scope) => {
      const v1 = scope as unknown as App
      takeBodiesOf(v1, contractBodyBytes)
      v1.addHook('onRequest', customers)
      answerUnknownPaths(v1)
      v1.register(async (files) => fileRoutes(files as unknown as App, parts))
      refuseOtherMethods(v1, paths)
      desktopRoutes(v1, desktopParts)
      guestRoutes(v1, parts)
      streamRoutes(v1, parts)
      usageRoutes(v1, parts)
    },
    { prefix: '/v1' },
  )
  await app.register(
    async (scope) => {
      const admin = scope as unknown as App
      admin.addHook('onRequest', operators)
      answerUnknownPaths(admin)
      parts.acts.watch(admin, callerOf)
      refuseOtherMethods(admin, paths)
      principalRoutes(admin, parts)
      hostAdminRoutes(admin, parts)
      removalRoutes(admin, parts)
      recoveryAdminRoutes(admin, parts)
      auditRoutes(admin, parts)
      desktopAdminRoutes(admin, desktopParts)
      operationAdminRoutes(admin, parts)
    },
    { prefix: '/admin/v1' },
  )
  await app.register(async (scope) => {
    const open = scope as unknown as App
    strangers.countAll(open)
    answerUnknownPaths(open)
    serveReadingPage(open)
    serveScreenPage(open)
    metricsRoute(open, registry)
    open.register(async (agents) => enrolRoutes(agents as unknown as App, parts), { prefix: '/agent/v1' })
  })
  healthRoutes(app, parts.readiness)
  return app
}

/** An unknown path asks for what its scope asks for: it tells a stranger nothing. */
function answerUnknownPaths(scope: App): void {
  scope.setNotFoundHandler((_request, reply) => void sendProblem(reply, notFound()))
}

/** From memory, and without any limit: whoever watches over this process must not be held up by what others ask of it. */
function healthRoutes(app: App, readiness: Readiness): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))

  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    const { database, leader, leads, mayTakeOver } = readiness
    const ready = database && leader
    return reply
      .code(ready ? 200 : 503)
      .send({ status: ready ? 'ready' : 'not ready', database, leader, leads, may_take_over: mayTakeOver })
  })
}

/** How near this replica is to its limits. */
function showHeld(registry: Registry, { connections, heldBytes }: AppParts): void {
  const show = (name: string, help: string, count: () => number) =>
    new Gauge({
      name,
      help,
      registers: [registry],
      collect() {
        this.set(count())
      },
    })
  show('dormouse_connections', 'Connections that are open', () => connections.count)
  show('dormouse_held_bytes', 'Bytes of unfinished bodies and unread answers', () => heldBytes.count)
}

function metricsRoute(app: App, registry: Registry): void {
  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) =>
    reply
      .type(registry.contentType)
      .serializer(String)
      .send(await registry.metrics()),
  )
}

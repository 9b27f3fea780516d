// The HTTP application: every scope with its door and its routes. Sees all, decides nothing.
import { theOne404 } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import { Counter, Registry } from 'prom-client'
import { auditRoutes } from './audit/routes.ts'
import type { Pool } from './db/pool.ts'
import { desktopAdminRoutes, desktopRoutes } from './desktops/routes.ts'
import type { Desktops } from './desktops/service.ts'
import { fileRoutes, guestRoutes } from './guest/routes.ts'
import type { Guests } from './guest/service.ts'
import { enrolRoutes, hostAdminRoutes } from './hosts/routes.ts'
import type { Hosts } from './hosts/service.ts'
import type { Acts } from './http/acts.ts'
import type { InFlight } from './http/in-flight.ts'
import { contractBodyBytes, takeBodiesOf } from './http/json-bodies.ts'
import { notePaths, refuseOtherMethods } from './http/methods.ts'
import { publishOpenApi } from './http/openapi.ts'
import { sendProblem } from './http/problems.ts'
import { prepareRateLimits, rateLimitOf } from './http/rate-limit.ts'
import { serveReadingPage } from './http/reading-page.ts'
import { type App, createServer, pathOf } from './http/server.ts'
import type { Leadership } from './leadership/leadership.ts'
import type { Waiters } from './operations/waiters.ts'
import { callerOf, customersOnly, operatorsOnly } from './principals/door.ts'
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
  acts: Acts
  inFlight: InFlight
  pool: Pool
  log: Log
  leadership: Leadership
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
  /** Requests a second: of one credential, and of one address without a good one. */
  rateLimits: { callers: number; strangers: number }
  /** For how long not a byte of a body may move. */
  stallMs: number
}

/** The application, ready to listen. A room takes of the parts what its routes name, and sees no other. */
export async function createApp(parts: AppParts): Promise<App> {
  const { log, principals, rateLimits } = parts
  const app = createServer(log, parts.stallMs, async (request, reply) => {
    const path = pathOf(request.url)
    if (path.startsWith('/v1/')) await customers.call(app, request, reply)
    if (path.startsWith('/admin/v1/')) await operators.call(app, request, reply)
  })
  parts.inFlight.watch(app)
  await prepareRateLimits(app)
  const doors = {
    principals,
    callers: rateLimitOf(app, rateLimits.callers, callerOf),
    strangers: rateLimitOf(app, rateLimits.strangers, ({ ip }) => ip),
  }
  const [customers, operators] = [customersOnly(doors), operatorsOnly(doors)]
  const paths = notePaths(app)
  const registry = new Registry()
  const mismatches = new Counter({
    name: 'dormouse_idempotency_mismatches_total',
    help: 'Requests that repeated an Idempotency-Key with another body',
    registers: [registry],
  })
  const desktopParts = { ...parts, onMismatch: () => mismatches.inc() }
  await publishOpenApi(app)
  serveReadingPage(app)

  await app.register(
    async (scope) => {
      const v1 = scope as unknown as App
      takeBodiesOf(v1, contractBodyBytes)
      v1.addHook('onRequest', customers)
      notFoundBehindTheDoor(v1)
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
      notFoundBehindTheDoor(admin)
      parts.acts.watch(admin, callerOf)
      refuseOtherMethods(admin, paths)
      principalRoutes(admin, parts)
      hostAdminRoutes(admin, parts)
      removalRoutes(admin, parts)
      recoveryAdminRoutes(admin, parts)
      auditRoutes(admin, parts)
      desktopAdminRoutes(admin, desktopParts)
    },
    { prefix: '/admin/v1' },
  )
  await app.register(async (scope) => enrolRoutes(scope as unknown as App, parts), { prefix: '/agent/v1' })
  serveScreenPage(app)
  healthRoutes(app, parts, registry)
  return app
}

/** An unknown path asks for a credential like any other: it tells a stranger nothing. */
function notFoundBehindTheDoor(scope: App): void {
  scope.setNotFoundHandler((_request, reply) => void sendProblem(reply, theOne404()))
}

/** A database that says nothing for so long is away, for whoever asks. */
const look = { text: 'select 1', query_timeout: 2_000 }

function healthRoutes(app: App, { pool, leadership }: AppParts, registry: Registry): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))

  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    const database = await pool.query(look).then(
      () => true,
      () => false,
    )
    const leader = leadership.leaderKnown
    const ready = database && leader
    const leads = leadership.term !== undefined
    const mayTakeOver = database && (await leadership.mayTakeOver().catch(() => false))
    return reply
      .code(ready ? 200 : 503)
      .send({ status: ready ? 'ready' : 'not ready', database, leader, leads, may_take_over: mayTakeOver })
  })

  app.get('/metrics', { schema: { hide: true } }, async (_request, reply) =>
    reply
      .type(registry.contentType)
      .serializer(String)
      .send(await registry.metrics()),
  )
}

// The HTTP application: every scope with its authentication and its routes. Decides nothing.
import { noSuchRoute, refuse, type TierJson } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { onRequestHookHandler } from 'fastify'
import { Counter, type Registry } from 'prom-client'
import { auditRoutes } from './audit/routes.ts'
import type { ClientLimits } from './client-limits.ts'
import type { Config } from './config.ts'
import { moveAdminRoutes } from './desktops/move-routes.ts'
import { operationAdminRoutes } from './desktops/operation-routes.ts'
import { desktopAdminRoutes, desktopRoutes } from './desktops/routes.ts'
import { sharesOfTiers } from './desktops/shares.ts'
import { archiveRoutes } from './guest/archive-routes.ts'
import { entryRoutes } from './guest/entry-routes.ts'
import { execInputRoutes, execRoutes } from './guest/exec-routes.ts'
import { fileUrlRoutes } from './guest/file-url-routes.ts'
import { handedFileRoutes } from './guest/handed-files.ts'
import { fileRoutes, guestRoutes } from './guest/routes.ts'
import { uploadRoutes } from './guest/upload-routes.ts'
import { watchRoutes } from './guest/watch-routes.ts'
import { enrolRoutes, hostAdminRoutes } from './hosts/routes.ts'
import type { App } from './http/app.ts'
import type { AuditTrail } from './http/audit-trail.ts'
import type { InFlightRequests } from './http/in-flight-requests.ts'
import { contractBodyBytes, takeBodiesOf } from './http/json-bodies.ts'
import { type KnownPaths, notePaths, refuseOtherMethods } from './http/methods.ts'
import { omitNullFields } from './http/null-fields.ts'
import { publishOpenApi } from './http/openapi.ts'
import { servePackages } from './http/packages.ts'
import { sendProblem } from './http/problems.ts'
import { serveReadingPage } from './http/reading-page.ts'
import { type AuthenticateUnroutable, createServer, pathOf } from './http/server.ts'
import { refuseUnknownFields } from './http/unknown-fields.ts'
import { imageAdminRoutes, offerRoutes } from './images/routes.ts'
import type { Readiness } from './leadership/readiness.ts'
import { eventAdminRoutes, eventRoutes } from './listeners/routes.ts'
import type { Modules } from './modules.ts'
import { callerOf, customersOnly, operatorsOnly } from './principals/authentication.ts'
import { requireRights } from './principals/rights.ts'
import { operatorKeyRoutes, principalRoutes } from './principals/routes.ts'
import { recoveryAdminRoutes } from './recovery/routes.ts'
import { removalRoutes } from './removals/routes.ts'
import { serveScreenPage } from './streams/page.ts'
import { streamRoutes } from './streams/routes.ts'
import { watchRequests } from './telemetry/requests.ts'
import { metricsRoutes } from './telemetry/routes.ts'
import type { Telemetry } from './telemetry/telemetry.ts'
import { usageRoutes } from './usage/routes.ts'

export interface AppParts extends Modules, ClientLimits {
  config: Config
  log: Log
  acts: AuditTrail
  inFlight: InFlightRequests
  telemetry: Telemetry
}

/** The application, ready to listen. The routes of a module get only the parts that they name. */
export async function createApp(given: AppParts): Promise<App> {
  const { log, config, principals, strangers, connections, callers, heldBytes } = given
  const authentication = { principals, strangers, connections, callers }
  const [customers, operators] = [customersOnly(authentication), operatorsOnly(authentication)]
  const unroutable: AuthenticateUnroutable = async (request, reply) => {
    const path = pathOf(request.url)
    if (path.startsWith('/v1/')) await customers.call(app, request, reply, () => undefined)
    else if (path.startsWith('/admin/v1/')) await operators.call(app, request, reply, () => undefined)
    else strangers.count(request.raw)
  }
  const { bodyStallMs: stallMs, trustedProxies, pageUrl: origin, maxDesktopsPerOrg } = config
  const app = createServer({
    log,
    stallMs,
    trustedProxies,
    hold: (...bytes) => heldBytes.hold(...bytes),
    unroutable,
    upgrades: given.wings.takesUpgrades,
  })
  const { registry, tracing } = given.telemetry
  watchRequests(app, { registry, log, tracing })
  connections.watch(app)
  heldBytes.watch(app)
  given.inFlight.watch(app)
  const scoped = {
    parts: {
      ...given,
      stallMs,
      origin,
      maxDesktopsPerOrg,
      tiers: tiersOf(config),
      onMismatch: countMismatches(registry),
    },
    paths: notePaths(app),
  }
  refuseChangesIfOutdated(app, given.readiness)
  await publishOpenApi(app)
  await app.register(async (scope: App) => customerRoutes(scope, customers, scoped), { prefix: '/v1' })
  await app.register(async (scope: App) => agentRoutes(scope, customers, scoped))
  await app.register(async (scope: App) => operatorRoutes(scope, operators, scoped), { prefix: '/admin/v1' })
  await app.register(async (scope: App) => openRoutes(scope, scoped))
  await app.register(async (scope: App) => handedRoutes(scope, scoped), { prefix: '/files' })
  await app.register(async (scope: App) => {
    scope.addHook('onRequest', operatorsOnly({ ...authentication, isForMonitoring: true }))
    metricsRoutes(scope, given)
  })
  healthRoutes(app, given.readiness)
  return app
}

/** Also for what needs no leader, such as a command in a guest. */
function refuseChangesIfOutdated(app: App, readiness: Readiness): void {
  const reads = new Set(['GET', 'HEAD', 'OPTIONS'])
  app.addHook('preHandler', async ({ method }) => {
    if (readiness.outdated && !reads.has(method)) refuse('replica_outdated')
  })
}

/** The source of the options that each scope passes to its routes. */
interface Scoped {
  parts: AppParts & {
    stallMs: number
    origin: string | undefined
    maxDesktopsPerOrg: number
    tiers: TierJson[]
    onMismatch(): void
  }
  paths: KnownPaths
}

function customerRoutes(scope: App, authenticate: onRequestHookHandler, { parts, paths }: Scoped): void {
  takeBodiesOf(scope, contractBodyBytes)
  scope.addHook('onRequest', authenticate)
  parts.openRequests.watch(scope)
  requireRights(scope)
  refuseUnknownFields(scope)
  omitNullFields(scope)
  answerUnknownPaths(scope)
  parts.wings.beforeCustomerRoutes(scope)
  scope.register(async (files: App) => fileRoutes(files, parts))
  scope.register(async (inputs: App) => execInputRoutes(inputs, parts))
  scope.register(async (files: App) => uploadRoutes(files, parts))
  scope.register(async (archives: App) => archiveRoutes(archives, parts))
  refuseOtherMethods(scope, paths)
  desktopRoutes(scope, { ...parts, lastMetrics: parts.wings.lastMetrics })
  offerRoutes(scope, parts)
  guestRoutes(scope, parts)
  entryRoutes(scope, parts)
  fileUrlRoutes(scope, parts)
  watchRoutes(scope, parts)
  execRoutes(scope, parts)
  streamRoutes(scope, parts)
  usageRoutes(scope, parts)
  eventRoutes(scope, parts)
  parts.wings.customerRoutes(scope, parts)
}

/** For agents that use the Model Context Protocol: customers, with a protocol of their own. */
function agentRoutes(scope: App, authenticate: onRequestHookHandler, { parts, paths }: Scoped): void {
  takeBodiesOf(scope, contractBodyBytes)
  scope.addHook('onRequest', authenticate)
  parts.openRequests.watch(scope)
  requireRights(scope)
  refuseUnknownFields(scope)
  omitNullFields(scope)
  refuseOtherMethods(scope, paths)
  parts.wings.agentRoutes(scope)
}

function operatorRoutes(scope: App, authenticate: onRequestHookHandler, { parts, paths }: Scoped): void {
  scope.addHook('onRequest', authenticate)
  refuseUnknownFields(scope)
  omitNullFields(scope)
  answerUnknownPaths(scope)
  parts.acts.watch(scope, callerOf)
  refuseOtherMethods(scope, paths)
  principalRoutes(scope, parts)
  operatorKeyRoutes(scope, parts)
  hostAdminRoutes(scope, parts)
  imageAdminRoutes(scope, parts)
  removalRoutes(scope, parts)
  recoveryAdminRoutes(scope, parts)
  auditRoutes(scope, parts)
  desktopAdminRoutes(scope, parts)
  moveAdminRoutes(scope, parts)
  operationAdminRoutes(scope, parts)
  eventAdminRoutes(scope, parts)
  parts.wings.operatorRoutes(scope)
}

/** Routes without a credential: pages, and the enrolment of hosts. Requests are counted by their address. */
function openRoutes(scope: App, { parts }: Scoped): void {
  parts.strangers.countAll(scope)
  answerUnknownPaths(scope)
  servePackages(scope)
  serveReadingPage(scope)
  serveScreenPage(scope)
  scope.register(async (agents: App) => enrolRoutes(agents, parts), { prefix: '/agent/v1' })
}

/** Files of guests that are opened by a URL. The URL is the credential. */
function handedRoutes(scope: App, { parts, paths }: Scoped): void {
  parts.strangers.countAll(scope)
  answerUnknownPaths(scope)
  scope.register(async (files: App) =>
    handedFileRoutes(files, { ...parts, count: parts.connections.countByCredential.bind(parts.connections) }),
  )
  refuseOtherMethods(scope, paths)
}

/** An unknown path needs the credential of its scope, so that unauthenticated clients learn nothing. */
function answerUnknownPaths(scope: App): void {
  scope.setNotFoundHandler((_request, reply) => void sendProblem(reply, noSuchRoute()))
}

/** Answered from memory and without any limit: monitoring must not be delayed by other requests. */
function healthRoutes(app: App, readiness: Readiness): void {
  app.get('/healthz', { schema: { hide: true } }, async () => ({ status: 'ok' }))

  app.get('/readyz', { schema: { hide: true } }, async (_request, reply) => {
    const { database, leader, leads, outdated, mayTakeOver } = readiness
    const ready = database && leader && !outdated
    return reply
      .code(ready ? 200 : 503)
      .send({ status: ready ? 'ready' : 'not ready', database, leader, leads, outdated, may_take_over: mayTakeOver })
  })
}

function tiersOf(config: Config): TierJson[] {
  const { tierSmall, tierDefault, tierLarge } = config
  const shares = sharesOfTiers(config)
  return Object.entries({ small: tierSmall, default: tierDefault, large: tierLarge } as const).map(([name, size]) => {
    const tier = name as TierJson['tier']
    return { tier, vcpus: size.vcpus, memory_mib: size.memoryMiB, disk_gib: size.diskGiB, shares: shares[tier] }
  })
}

function countMismatches(registry: Registry): () => void {
  const mismatches = new Counter({
    name: 'dormouse_idempotency_mismatches_total',
    help: 'Requests that reused an Idempotency-Key with another body',
    registers: [registry],
  })
  return () => mismatches.inc()
}

// The roof: makes each long-lived thing once and hands every room only what it uses.
import { isIPv6 } from 'node:net'
import { type HeartbeatAnswer, newId } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import { Channels } from './agents/channels.ts'
import { openGateway } from './agents/gateway.ts'
import { Links } from './agents/links.ts'
import { createApp } from './app.ts'
import { record } from './audit/store.ts'
import type { Config } from './config.ts'
import { LongReads } from './db/long-reads.ts'
import { migrate } from './db/migrate.ts'
import { isDatabaseAway, openPool, type Pool } from './db/pool.ts'
import { Quota } from './desktops/quota.ts'
import { Desktops } from './desktops/service.ts'
import { quotaOf } from './desktops/store.ts'
import { Guests } from './guest/service.ts'
import { HostProofs } from './hosts/proofs.ts'
import { Hosts } from './hosts/service.ts'
import { Addresses } from './http/addresses.ts'
import { AuditTrail } from './http/audit-trail.ts'
import { Connections } from './http/connections.ts'
import { InFlightBytes } from './http/in-flight-bytes.ts'
import { InFlightRequests } from './http/in-flight-requests.ts'
import { RateLimit } from './http/rate-limit.ts'
import { sendRawProblem } from './http/raw-responses.ts'
import { UnauthenticatedClients } from './http/unauthenticated-clients.ts'
import { Leadership } from './leadership/leadership.ts'
import { Readiness } from './leadership/readiness.ts'
import { liveReplicas } from './leadership/store.ts'
import { operationKinds } from './operation-kinds.ts'
import { Engine } from './operations/engine.ts'
import { Waiters } from './operations/waiters.ts'
import { AccessTokens } from './principals/access-tokens.ts'
import { fetchKeySet } from './principals/issuer.ts'
import { Principals } from './principals/service.ts'
import { SigningKeys } from './principals/signing-keys.ts'
import { reconcile } from './reconcile/reconcilers.ts'
import { reconcilers } from './reconcilers.ts'
import { Recovery } from './recovery/service.ts'
import { Removals } from './removals/service.ts'
import { reportHandlers } from './report-handlers.ts'
import { Retention } from './retention/service.ts'
import { IssuedTokens } from './streams/issued-tokens.ts'
import { Screens } from './streams/screens.ts'
import { Streams } from './streams/service.ts'
import { Usage } from './usage/service.ts'

/** How long a stop waits for requests under way; an exec may last longer, and is then cut. */
const drainMs = 3_000

const mib = 1024 * 1024
const oneTooMany = { status: 429, detail: 'too many connections; close some, or show a credential on them' }

export interface ControlPlane {
  replicaId: string
  /** Where it really listens, also when the port was left to the system. */
  url: string
  pool: Pool
  leadership: Leadership
  engine: Engine
  links: Links
  channels: Channels
  waiters: Waiters
  acts: AuditTrail
  /** Requests that were not answered yet. */
  inFlight: InFlightRequests
  connections: Connections
  heldBytes: InFlightBytes
  recovery: Recovery
  principals: Principals
  hosts: Hosts
  longReads: LongReads
  usage: Usage
  retention: Retention
  /** Gives leadership up first, then drains requests, then lets go of links and database. */
  close(): Promise<void>
}

/** Starts a control plane: schema, rooms, HTTP server, links, contention for leadership. */
export async function startControlPlane(config: Config, log: Log, failpoints: Failpoints): Promise<ControlPlane> {
  const room = (name: string) => log.child({ room: name })
  const pool = openPool(config.databaseUrl, config.databasePool, (error) =>
    room('db').warn({ err: error }, 'an idle connection was lost'),
  )
  const applied = await migrate({ databaseUrl: config.databaseUrl, log: room('db') })
  if (applied.length > 0) room('db').info({ applied }, 'schema brought up to date')
  const installation = await pool.query<{ id: string }>('select id from installation')
  const installationId = installation.rows[0]!.id

  const replicaId = newId()
  const links = new Links(room('agents'))
  const channels = new Channels()
  const waiters = new Waiters({ db: pool, capMs: config.waitCapMs })
  const principals = new Principals(pool, room('principals'), accessTokens(config, room('principals')))
  const { hostLeaseMs: leaseMs, vcpusPerProcessor } = config
  const hosts = new Hosts({ pool, links, installationId, leaseMs, vcpusPerProcessor, log: room('hosts') })
  const proofs = new HostProofs({ pool, installationId, log: room('hosts') })

  const leadershipOptions = {
    pool,
    databaseUrl: config.databaseUrl,
    replicaId,
    url: config.publicUrl ?? '',
    leaseMs: config.leadershipLeaseMs,
    log: room('leadership'),
    failpoints,
  }
  const leadership = new Leadership(leadershipOptions)
  const graceMs = config.destroyGraceMs
  const longReads = new LongReads({ pool, poolSize: config.databasePool })
  const quota = new Quota({ leadership, read: (orgId) => quotaOf(pool, orgId, config.maxDesktopsPerOrg) })
  const definitions = operationKinds({ leadership, hosts, links, graceMs, quota })
  const engine = new Engine({
    pool,
    leadership,
    waiters,
    definitions,
    failpoints,
    log: room('operations'),
    progressGraceMs: Math.min(30_000, config.wakeDeadlineMs),
  })
  const desktops = new Desktops({
    pool,
    leadership,
    engine,
    quota,
    longReads,
    failpoints,
    tiers: {
      small: config.tierSmall,
      default: config.tierDefault,
      large: config.tierLarge,
    },
    defaultImage: config.defaultImage,
    defaultIdleTimeoutSecs: config.defaultIdleTimeoutSecs,
    deadlineMs: {
      wake: config.wakeDeadlineMs,
      hibernate: config.hibernateDeadlineMs,
      destroy: config.destroyDeadlineMs,
    },
  })
  const origin = config.pageUrl
  const given = new IssuedTokens()
  const { strangers, connections, heldBytes } = doorkeepers(config, room('http'))
  const count = connections.prove.bind(connections)
  const screens = new Screens({ pool, principals, links, channels, given, count, origin, log: room('streams') })
  const streams = new Streams({ pool, desktops, links, channels, given, onHandedOver: () => void screens.look() })
  const guests = new Guests(desktops, links, channels)
  const recovery = new Recovery({ pool, leadership, links, hosts, log: room('recovery') })
  const removals = new Removals({ pool, leadership, engine, links, channels, log: room('removals') })
  const usage = new Usage({ pool, leadership, longReads, links, log: room('usage') })
  const { keepRecordsDays: recordsDays, keepAuditDays: auditDays } = config
  const retention = new Retention({ db: pool, log: room('retention'), recordsDays, auditDays })
  reconcile(leadership, reconcilers({ engine, recovery, usage, streams, retention }), room('reconcile'))

  const readiness = new Readiness(pool, leadership)
  await readiness.start()
  const inFlight = new InFlightRequests()
  const acts = new AuditTrail(record)
  const app = await createApp({
    acts,
    inFlight,
    pool,
    log: room('http'),
    leadership,
    desktops,
    guests,
    streams,
    origin,
    hosts,
    removals,
    recovery,
    principals,
    waiters,
    usage,
    stallMs: config.bodyStallMs,
    readiness,
    strangers,
    connections,
    heldBytes,
    trustedProxies: config.trustedProxies,
    rateLimitPerSecond: config.rateLimitPerSecond,
    maxDesktopsPerOrg: config.maxDesktopsPerOrg,
  })
  const handlers = reportHandlers({ engine, recovery })
  const gateway = openGateway({
    server: app.server,
    links,
    heartbeatMs: config.heartbeatMs,
    log: room('agents'),
    hooks: {
      proofs,
      hello: async (hostId, { facts }) => {
        await hosts.heard(hostId, facts)
        const { epoch } = (await pool.query<{ epoch: number }>('select epoch from leadership')).rows[0]!
        return {
          hostId,
          replicaId,
          epoch,
          heartbeatMs: config.heartbeatMs,
          leaseMs,
          replicas: await liveReplicas(pool),
        }
      },
      joined: (hostId, hello) => recovery.joined(hostId, hello),
      heartbeat: async (hostId, heartbeat) => {
        await usage.heard(hostId, heartbeat)
        return answerHeartbeat(pool, () => hosts.heard(hostId, heartbeat.facts))
      },
      strangers,
      refuse: (socket, refusal) => sendRawProblem(socket, refusal, room('http')),
      report: (hostId, name, report) => handlers[name](hostId, report as never),
    },
  })

  channels.attach(gateway.upgrades, (request, hostId) => strangers.prove(request, hostId))
  screens.attach(gateway.upgrades)

  await app.listen({ host: config.host, port: config.port })
  const address = app.server.address()
  const port = typeof address === 'object' && address ? address.port : config.port
  const url =
    config.publicUrl?.replace(/\/$/, '') ?? `http://${isIPv6(config.host) ? `[${config.host}]` : config.host}:${port}`
  leadershipOptions.url = url
  leadership.start()
  removals.watch()
  room('http').info({ url }, 'listening')

  return {
    replicaId,
    url,
    pool,
    leadership,
    engine,
    links,
    channels,
    acts,
    inFlight,
    connections,
    heldBytes,
    waiters,
    recovery,
    principals,
    hosts,
    longReads,
    usage,
    retention,
    close: async () => {
      await leadership.stop()
      readiness.stop()
      waiters.release()
      await inFlight.drained(drainMs)
      await gateway.upgrades.close(1001, 'the control plane stops')
      await gateway.answered()
      await removals.close()
      await screens.close()
      await app.close()
      await engine.idle()
      await recovery.idle()
      await pool.end()
    },
  }
}

/** A database that is away renews no lease, and is no reason to hang up: guests are asked over the same link. */
async function answerHeartbeat(pool: Pool, heard: () => Promise<boolean>): Promise<HeartbeatAnswer> {
  try {
    return { leaseRenewed: await heard(), replicas: await liveReplicas(pool) }
  } catch (error) {
    if (!isDatabaseAway(error)) throw error
    return { leaseRenewed: false, replicas: [] }
  }
}

/** Those who count whoever comes: how often, with how many connections, and how many bytes are kept for them. */
function doorkeepers(config: Config, log: Log) {
  const addresses = new Addresses(config.trustedProxies)
  const connections = new Connections({
    limits: {
      perAddress: config.maxConnectionsPerAddress,
      perCredential: config.maxConnectionsPerCredential,
      inAll: config.maxConnections,
    },
    addresses,
    turnAway: (socket) => sendRawProblem(socket, oneTooMany, log),
    over: (request) => heldBytes.release(request),
  })
  const heldBytes = new InFlightBytes({
    limits: {
      perAddress: config.maxHeldMiBPerAddress * mib,
      perCredential: config.maxHeldMiBPerCredential * mib,
      inAll: config.maxHeldMiB * mib,
    },
    payerOf: (request) => connections.payerOf(request),
    turnAway: (socket) => connections.turnAway(socket),
  })
  const strangers = new UnauthenticatedClients(
    addresses,
    new RateLimit(config.rateLimitStrangersPerSecond),
    connections,
  )
  return { connections, heldBytes, strangers }
}

/** The access tokens of the configured issuer; undefined where there is none. */
function accessTokens(config: Config, log: Log): AccessTokens | undefined {
  const { oidcIssuer: issuer, oidcAudience: audience, oidcJwksUrl = null, oidcOrgClaim: orgClaim } = config
  if (!issuer || !audience) return undefined
  const keys = new SigningKeys({ fetch: () => fetchKeySet({ issuer, jwksUrl: oidcJwksUrl }), log })
  return new AccessTokens({ issuer, audience, orgClaim, keys, log })
}

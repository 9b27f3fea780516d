// The services of all modules. Each is created once and gets only what it uses. Decides nothing.
import { newId } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import { HostReports } from './activity/host-reports.ts'
import { ScreenInputs } from './activity/screen-inputs.ts'
import { Channels } from './agents/channels.ts'
import { Links } from './agents/links.ts'
import { Relays } from './agents/relays.ts'
import { StandingAlarms } from './alarms/service.ts'
import type { ClientLimits } from './client-limits.ts'
import type { Config } from './config.ts'
import { LongReads } from './db/long-reads.ts'
import type { Pool } from './db/pool.ts'
import { beginFollower } from './desktops/followers.ts'
import { LifecycleBudget } from './desktops/lifecycle-budget.ts'
import { Moves } from './desktops/moves.ts'
import { Quota } from './desktops/quota.ts'
import { Desktops, type DesktopsOptions } from './desktops/service.ts'
import { sharesOfTiers } from './desktops/shares.ts'
import { quotaOf } from './desktops/store.ts'
import { CommitNotices } from './events/commit-notices.ts'
import { EventFeed } from './events/feed.ts'
import { EventPartitions } from './events/partitions.ts'
import { AwakeDesktops } from './guest/awake.ts'
import { Awakener } from './guest/awaken.ts'
import { GuestCaller } from './guest/calls.ts'
import { Entries } from './guest/entries.ts'
import { prune as pruneExecs } from './guest/exec-store.ts'
import { Execs } from './guest/execs.ts'
import { prune as pruneFileUrls } from './guest/file-url-store.ts'
import { FileUrls } from './guest/file-urls.ts'
import { KeyedExecs } from './guest/keyed-execs.ts'
import { Guests } from './guest/service.ts'
import { Transfers } from './guest/transfers.ts'
import { Uploads } from './guest/uploads.ts'
import { Watches } from './guest/watches.ts'
import { CheckIns } from './hosts/check-ins.ts'
import { HostProofs } from './hosts/proofs.ts'
import { Hosts } from './hosts/service.ts'
import { WorkLimits } from './hosts/work-limits.ts'
import { Offers } from './images/offers.ts'
import { Images } from './images/service.ts'
import { Leadership } from './leadership/leadership.ts'
import { Readiness } from './leadership/readiness.ts'
import { Listeners } from './listeners/service.ts'
import { operationKinds } from './operation-kinds.ts'
import { Engine } from './operations/engine.ts'
import { Waiters } from './operations/waiters.ts'
import { WorkQueue } from './operations/work-queue.ts'
import { AccessTokens } from './principals/access-tokens.ts'
import { fetchKeySet } from './principals/issuer.ts'
import { OpenRequests } from './principals/open-requests.ts'
import { Principals } from './principals/service.ts'
import { SigningKeys } from './principals/signing-keys.ts'
import { Recovery } from './recovery/service.ts'
import { Removals } from './removals/service.ts'
import { Retention } from './retention/service.ts'
import { IssuedTokens } from './streams/issued-tokens.ts'
import { Screens } from './streams/screens.ts'
import { Streams } from './streams/service.ts'
import type { Telemetry } from './telemetry/telemetry.ts'
import { Usage } from './usage/service.ts'
import { openWings, type Wings } from './wings.ts'

/** Proxies close connections without traffic, often after 30 s. */
const eventHeartbeatMs = 15_000

export interface Foundation {
  config: Config
  pool: Pool
  installationId: string
  failpoints: Failpoints
  telemetry: Pick<Telemetry, 'operations' | 'commands' | 'registry'>
  logOf(module: string): Log
}

export type Modules = Mechanics & ReturnType<typeof openHosts> & ReturnType<typeof openRest>

/** Creates the modules layer by layer, from the lowest up. None runs yet, except those that watch their own state. */
export function openModules(foundation: Foundation, limits: ClientLimits): Modules {
  const mechanics = openMechanics(foundation)
  const hosts = openHosts(foundation, mechanics)
  return {
    ...mechanics,
    ...hosts,
    ...openRest(foundation, limits, mechanics, hosts),
  }
}

type Mechanics = ReturnType<typeof openMechanics>

/** The modules that know no desktop: leadership, the links to agents, and requests that wait for operations. */
function openMechanics({ config, pool, failpoints, telemetry, logOf }: Foundation) {
  const replicaId = newId()
  const leadership = new Leadership({
    pool,
    databaseUrl: config.databaseUrl,
    replicaId,
    leaseMs: config.leadershipLeaseMs,
    log: logOf('leadership'),
    failpoints,
  })
  const channels = new Channels()
  const { databaseUrl, keepEventsDays: keepDays } = config
  const notices = new CommitNotices({ pool, databaseUrl, log: logOf('events') })
  const events = new EventFeed({ pool, leadership, notices, log: logOf('events') })
  return {
    replicaId,
    pool,
    leadership,
    alarms: new StandingAlarms({ pool, leadership }),
    notices,
    events,
    eventPartitions: new EventPartitions({ leadership, keepDays, log: logOf('events') }),
    readiness: new Readiness(pool, leadership),
    links: new Links(logOf('agents'), telemetry.commands),
    channels,
    relays: new Relays({ channels, mibPerSec: config.moveRelayMibps, log: logOf('agents') }),
    waiters: new Waiters({ db: pool, events, capMs: config.waitCapMs }),
    longReads: new LongReads({ pool, poolSize: config.databasePool }),
  }
}

/** What desktops need: hosts and principals. */
function openHosts({ config, pool, installationId, logOf }: Foundation, mechanics: Mechanics) {
  const { links, leadership, replicaId } = mechanics
  const { vcpusPerProcessor, heartbeatMs } = config
  const hosts = new Hosts({
    ...{ pool, leadership, links, installationId, vcpusPerProcessor, quarantineMs: config.quarantineMs },
    relaysMoves: config.moveRelayMibps > 0,
    log: logOf('hosts'),
  })
  const workLimits = new WorkLimits(config.operationsPerHost)
  return {
    hosts,
    principals: new Principals(pool, logOf('principals'), accessTokens(config, logOf('principals'))),
    workLimits,
    images: new Images({
      ...{ pool, leadership, links, usualSize: config.tierDefault },
      hosts: () => hosts.withImages(),
      log: logOf('images'),
    }),
    offers: new Offers({ pool, reported: () => hosts.reportedImages(), defaultImage: config.defaultImage }),
    hostProofs: new HostProofs({ pool, installationId }),
    hostReports: hostReports(links),
    checkIns: new CheckIns({ pool, hosts, workLimits, replicaId, heartbeatMs }),
  }
}

/** Desktops, the modules for awake desktops, the modules that work across others, and the wings. */
function openRest(
  foundation: Foundation,
  limits: ClientLimits,
  mechanics: Mechanics,
  openedHosts: ReturnType<typeof openHosts>,
) {
  const { config, pool, logOf } = foundation
  const { hosts, images, offers, workLimits, principals } = openedHosts
  const { leadership, links, channels, longReads, events, alarms } = mechanics
  const { engine, desktops, moves, lifecycle } = openDesktops(foundation, mechanics, {
    ...{ hosts, images, offers, workLimits },
    mayWake: (desktopId) => recovery.mayWake(desktopId),
    labelRules: () => wings.labelRules,
  })
  const recovery = new Recovery({ pool, leadership, links, hosts, desktops, alarms, log: logOf('recovery') })
  const issued = new IssuedTokens()
  const { connections, heldBytes } = limits
  const [origin, count] = [config.pageUrl, connections.countByCredential.bind(connections)]
  const hold = heldBytes.holdFor.bind(heldBytes)
  const screenInputs = new ScreenInputs(pool, logOf('activity'))
  const inputOf = screenInputs.of.bind(screenInputs)
  const screens = new Screens({
    ...{ pool, principals, links, channels, issued, inputOf, count, hold, origin },
    log: logOf('streams'),
  })
  // Another client has taken the claim, so the holder's socket and its batches of input end.
  const onTakenOver = () => {
    void screens.check()
    wings.onTakenOver()
  }
  const streams = new Streams({ pool, leadership, desktops, issued, onTakenOver })
  const openRequests = new OpenRequests({
    ...{ principals, labelsOf: (ids) => desktops.labelsOf(ids), log: logOf('principals') },
  })
  const guests = openGuests(foundation, mechanics, { desktops, principals })
  const rest = { engine, desktops, moves, lifecycle, screens, streams, ...guests, recovery }
  const wings: Wings = openWings({ ...foundation, ...mechanics, ...openedHosts, ...rest, limits, onTakenOver })
  const { keepRecordsDays: recordsDays, keepAuditDays: auditDays } = config
  return {
    ...rest,
    wings,
    openRequests,
    removals: new Removals({ pool, leadership, engine, links, channels, log: logOf('removals') }),
    usage: new Usage({ pool, leadership, longReads, links, alarms, log: logOf('usage') }),
    listeners: new Listeners({
      ...{ events, principals, perOrg: config.maxEventStreamsPerOrg, log: logOf('events') },
      heartbeatMs: Math.min(eventHeartbeatMs, config.bodyStallMs / 2),
    }),
    retention: new Retention({
      ...{ db: pool, log: logOf('retention'), recordsDays, auditDays, pruneExecs, pruneFileUrls },
      pruneMore: wings.prune,
    }),
  }
}

/** The modules for the guest of an awake desktop. */
function openGuests(
  { pool, failpoints, logOf }: Foundation,
  { leadership, links, channels }: Mechanics,
  { desktops, principals }: { desktops: Desktops; principals: Principals },
) {
  const awake = new AwakeDesktops(desktops)
  const transfers = new Transfers(awake, links, channels)
  const log = logOf('guest')
  const calls = new GuestCaller(awake, links)
  const guests = new Guests(calls, transfers)
  const execs = new Execs({ awake, leadership, calls })
  return {
    awakener: new Awakener(),
    guests,
    uploads: new Uploads({ pool, leadership, links, awake, calls, transfers, log }),
    entries: new Entries(calls),
    fileUrls: new FileUrls({ pool, leadership, principals, desktops, failpoints, log }),
    execs,
    keyedExecs: new KeyedExecs(execs, (asking, body) => guests.exec(asking, body)),
    watches: new Watches(awake, calls),
  }
}

/** A host that links again reports everything. */
function hostReports(links: Links): HostReports {
  const reports = new HostReports()
  links.on('unlinked', (hostId) => reports.forget(hostId))
  return reports
}

function openDesktops(
  foundation: Foundation,
  mechanics: Mechanics,
  {
    hosts,
    images,
    offers,
    workLimits,
    mayWake,
    labelRules,
  }: Pick<ReturnType<typeof openHosts>, 'hosts' | 'images' | 'offers' | 'workLimits'> & {
    mayWake: Recovery['mayWake']
    labelRules: DesktopsOptions['labelRules']
  },
) {
  const { config, pool, failpoints, telemetry, logOf } = foundation
  const { leadership, links, relays, longReads, waiters } = mechanics
  const { tierSmall, tierDefault, tierLarge, defaultIdleTimeoutSecs } = config
  const quota = new Quota({ leadership, read: (orgId) => quotaOf(pool, orgId, config.maxDesktopsPerOrg) })
  const lifecycle = new LifecycleBudget()
  const engine = new Engine({
    pool,
    leadership,
    waiters,
    queue: new WorkQueue({
      inAll: config.operationsInFlight,
      onHost: (hostId) => workLimits.of(hostId),
      limitMs: config.queueLimitMs,
    }),
    definitions: operationKinds({
      ...{ leadership, hosts, images, links, relays, quota, graceMs: config.destroyGraceMs },
      shares: sharesOfTiers(config),
    }),
    failpoints,
    log: logOf('operations'),
    observer: telemetry.operations,
    follow: beginFollower,
    progressGraceMs: Math.min(30_000, config.wakeDeadlineMs),
  })
  const desktops = new Desktops({
    pool,
    leadership,
    engine,
    quota,
    lifecycle,
    longReads,
    failpoints,
    tiers: { small: tierSmall, default: tierDefault, large: tierLarge },
    maxDiskGiB: config.maxDiskGiB,
    offers,
    defaultIdleTimeoutSecs,
    deadlineMs: {
      wake: config.wakeDeadlineMs,
      hibernate: config.hibernateDeadlineMs,
      destroy: config.destroyDeadlineMs,
    },
    mayWake,
    labelRules,
  })
  const moves = new Moves({ leadership, engine, hosts, deadlineMs: config.moveDeadlineMs })
  return { engine, desktops, moves, lifecycle }
}

/** The access tokens of the configured issuer; undefined if there is none. */
function accessTokens(config: Config, log: Log): AccessTokens | undefined {
  const { oidcIssuer: issuer, oidcAudience: audience, oidcJwksUrl = null, oidcOrgClaim: orgClaim } = config
  if (!issuer || !audience) return undefined
  const keys = new SigningKeys({ fetch: () => fetchKeySet({ issuer, jwksUrl: oidcJwksUrl }), log })
  return new AccessTokens({ issuer, audience, orgClaim, keys, log })
}

// Starts and stops a control plane: opens the database, creates the modules, connects them to HTTP and to the agents' links,
// listens.
import { isIPv6 } from 'node:net'
import { hostname } from 'node:os'
import { type Failpoints, type Log, openTracing, outsideWork, StartError } from '@dormouse/process'
import { openGateway } from './agents/gateway.ts'
import { createApp } from './app.ts'
import { record } from './audit/store.ts'
import { type ClientLimits, clientLimits } from './client-limits.ts'
import type { Config } from './config.ts'
import { clockOffset, clockRemedy, isOff, offText } from './db/clock.ts'
import { inLane } from './db/lanes.ts'
import { migrate } from './db/migrate.ts'
import { whenAvailable } from './db/opening.ts'
import { openPool, type Pool } from './db/pool.ts'
import { installationId } from './hosts/installation.ts'
import type { App } from './http/app.ts'
import { AuditTrail } from './http/audit-trail.ts'
import { InFlightRequests } from './http/in-flight-requests.ts'
import { sendRawProblem } from './http/raw-responses.ts'
import { openStartingServer, type StartingServer } from './http/starting-server.ts'
import { type Modules, openModules } from './modules.ts'
import { reconcile } from './reconcile/reconcilers.ts'
import { reconcilers } from './reconcilers.ts'
import { reportHandlers } from './report-handlers.ts'
import { Telemetry } from './telemetry/telemetry.ts'

/** How long a stop waits for requests in flight. A request that takes longer, such as an exec, is aborted. */
const drainMs = 3_000

export interface ControlPlane extends Modules, Pick<ClientLimits, 'connections' | 'heldBytes'> {
  /** The URL it listens on, with the real port if the system chose it. */
  url: string
  acts: AuditTrail
  /** Requests that have not been answered yet. */
  inFlight: InFlightRequests
  /** Releases leadership first, then drains requests, then closes links and database. */
  close(): Promise<void>
}

/**
 * Starts a control plane. It contends for leadership once it listens. While the database is unavailable it waits, and serves
 * health checks; `signal` ends the wait, and `hasToWait` is called when it begins.
 */
export async function startControlPlane(
  config: Config,
  log: Log,
  failpoints: Failpoints,
  signal?: AbortSignal,
  hasToWait?: () => void,
): Promise<ControlPlane> {
  const logOf = (module: string) => log.child({ module })
  const { pool, installationId, port } = await openDatabase(config, logOf, signal, hasToWait)
  const limits = clientLimits(config, logOf('http'))
  const tracing = await openTracing({
    url: config.otlpUrl,
    service: 'dormouse-control-plane',
    instance: config.publicUrl ?? hostname(),
    share: config.traceShare,
    foreignParents: true,
    log: logOf('telemetry'),
  })
  const telemetry = new Telemetry(log, logOf, tracing)
  const foundation = { config, pool, installationId, failpoints, telemetry, logOf }
  const modules = openModules(foundation, limits)
  reconcile(modules.leadership, reconcilers(modules), logOf('reconcile'))
  await inLane('control', () => modules.readiness.start())
  const inFlight = new InFlightRequests()
  const acts = new AuditTrail(record)
  telemetry.watch({ ...modules, ...limits, inFlight }, config)
  const app = await createApp({ ...modules, ...limits, config, log: logOf('http'), acts, inFlight, telemetry })
  const gateway = acceptAgents({ app, modules, limits, config, logOf })
  const url = await listen(app, { ...config, port })
  inLane('control', () => modules.leadership.start(url))
  modules.removals.watch()
  logOf('http').info({ url }, 'listening')
  const { connections, heldBytes } = limits
  return {
    ...modules,
    url,
    acts,
    inFlight,
    connections,
    heldBytes,
    close: () => close(modules, app, gateway, inFlight).finally(() => telemetry.close()),
  }
}

interface Database {
  pool: Pool
  installationId: string
  /** The port to listen on: the one it used while it waited for the database, if it had to wait. */
  port: number
}

async function openDatabase(
  config: Config,
  logOf: (module: string) => Log,
  signal?: AbortSignal,
  hasToWait?: () => void,
): Promise<Database> {
  const log = logOf('db')
  const pool = openPool(config.databaseUrl, config.databasePool, (err) =>
    // A request may have opened the connection, but its loss belongs to no request.
    outsideWork(() => log.warn({ err }, 'an idle database connection was lost')),
  )
  let waiting: StartingServer | undefined
  const open = async () => {
    const applied = await migrate({ databaseUrl: config.databaseUrl, log })
    if (applied.length > 0) log.info({ applied }, 'the schema was brought up to date')
    const offsetMs = await clockOffset(pool)
    if (isOff(offsetMs)) log.warn({ offsetMs }, `the clock of this machine is ${offText(offsetMs)}; ${clockRemedy}`)
    return installationId(pool)
  }
  const waits = async () => {
    waiting = await openStartingServer({ ...config, log: logOf('http') }).catch(explainListen(config))
    hasToWait?.()
  }
  try {
    const installation = await whenAvailable(open, { log, signal, waits })
    return { pool, installationId: installation, port: waiting?.port ?? config.port }
  } catch (error) {
    void pool.end().catch(() => undefined)
    throw error
  } finally {
    await waiting?.close()
  }
}

interface Parts {
  app: App
  modules: Modules
  limits: ClientLimits
  config: Config
  logOf(module: string): Log
}

type Gateway = ReturnType<typeof acceptAgents>

/** Connects agents' links, the channels that they dial back and viewers' sockets to the HTTP server. */
function acceptAgents({ app, modules, limits: { strangers }, config, logOf }: Parts) {
  const { links, channels, screens, wings, checkIns, usage, recovery, hostProofs, hostReports } = modules
  const handlers = reportHandlers(modules)
  const gateway = openGateway({
    server: app.server,
    links,
    heartbeatMs: config.heartbeatMs,
    log: logOf('agents'),
    hooks: {
      proofs: hostProofs,
      strangers,
      hello: (hostId, { facts }) => inLane('control', () => checkIns.hello(hostId, facts)),
      joined: (hostId, hello) => recovery.joined(hostId, hello),
      heartbeat: (hostId, heartbeat) =>
        inLane('control', async () => {
          hostReports.heard(hostId, heartbeat)
          const leads = modules.leadership.term !== undefined
          const [answer, idleRules] = await Promise.all([
            checkIns.heartbeat(hostId, heartbeat.facts),
            leads && heartbeat.wantsIdleRules ? wings.idleRules(hostId) : undefined,
            usage.heard(hostId, heartbeat),
            leads ? wings.heard(hostId, heartbeat) : undefined,
          ])
          return { ...answer, now: Date.now(), leads, ...(idleRules && { idleRules }) }
        }),
      report: (hostId, name, report) => handlers[name](hostId, report as never),
      refuse: (socket, refusal) => sendRawProblem(socket, refusal, logOf('http')),
    },
  })
  channels.attach(gateway.upgrades, (request, hostId) => strangers.prove(request, hostId))
  screens.attach(gateway.upgrades)
  wings.attach(gateway.upgrades)
  return gateway
}

/** Returns the URL at which agents and other replicas reach this one. */
async function listen(app: App, { host, port, publicUrl }: Config): Promise<string> {
  await app.listen({ host, port }).catch(explainListen({ host, port }))
  const address = app.server.address()
  const bound = typeof address === 'object' && address ? address.port : port
  return publicUrl?.replace(/\/$/, '') ?? `http://${isIPv6(host) ? `[${host}]` : host}:${bound}`
}

/** Throws an error with what to correct, if that is known. */
const explainListen =
  ({ host, port }: Pick<Config, 'host' | 'port'>) =>
  (error: NodeJS.ErrnoException): never => {
    const sentences: Record<string, string> = {
      EADDRINUSE: `port ${port} of ${host} is in use by another program; end that, or set PORT to a free port`,
      EACCES: `port ${port} is reserved for root; set PORT to 1024 or above`,
      EADDRNOTAVAIL: `this machine has no address ${host}; set DORMOUSE_HOST to one that it has`,
      ENOTFOUND: `${host} is no address of this machine; correct DORMOUSE_HOST`,
    }
    const sentence = sentences[error.code ?? '']
    throw sentence ? new StartError(sentence, { cause: error }) : error
  }

async function close(modules: Modules, app: App, gateway: Gateway, inFlight: InFlightRequests): Promise<void> {
  const { leadership, readiness, waiters, removals, relays, screens, engine, recovery, wings, events, notices, pool } =
    modules
  await leadership.stop()
  readiness.stop()
  waiters.release()
  modules.listeners.close()
  events.close()
  await inFlight.drained(drainMs)
  relays.closeAll()
  await gateway.upgrades.close(1001, 'the control plane stops')
  await gateway.answered()
  await removals.close()
  await screens.close()
  modules.openRequests.close()
  await wings.close()
  await app.close()
  await engine.idle()
  await recovery.idle()
  await wings.settled()
  await notices.close()
  await pool.end()
}

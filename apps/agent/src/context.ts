// Makes each long-lived part of an agent once and joins them; decides nothing.
import { accessSync, constants } from 'node:fs'
import { availableParallelism, totalmem } from 'node:os'
import { type Failpoints, type Log, noFailpoints, openTracing } from '@dormouse/process'
import { linkHandlers } from './commands/table.ts'
import { type AgentConfig, foldersOf } from './config.ts'
import { Control } from './control.ts'
import type { CopiesOptions } from './copies/copies.ts'
import { ActivityReports } from './desktops/activity-reports.ts'
import type { Journal } from './desktops/journal.ts'
import { PhaseFilter } from './desktops/report.ts'
import type { Turns } from './desktops/turns.ts'
import { type EnrolledHost, enrolled } from './enrolment/enrol.ts'
import { HostKey } from './enrolment/host-key.ts'
import type { Identity } from './enrolment/identity.ts'
import { takeFolder } from './enrolment/possession.ts'
import { dialRule } from './enrolment/transport.ts'
import { Facts } from './facts.ts'
import { sayHeartbeat, sayHello } from './hello.ts'
import { ImageFacts } from './image-facts.ts'
import { type AnyDriver, makeDriver } from './make-driver.ts'
import { before } from './mechanics/deadlines.ts'
import { privateFolder } from './mechanics/durable-file.ts'
import { makeParts, type Parts, type PartsOptions } from './parts.ts'
import { PeriodicWork } from './periodic.ts'
import { type MetricsServer, serveMetrics } from './telemetry/serve.ts'
import { Telemetry } from './telemetry/telemetry.ts'

export interface AgentOptions {
  config: AgentConfig
  log: Log
  /** Replaces the configured driver, so that a test can reach its knobs. */
  driver?: AnyDriver
  failpoints?: Failpoints
  /** Ends a start that waits for a control plane. */
  signal?: AbortSignal
}

export interface Agent {
  hostId: string
  installationId: string
  driver: AnyDriver
  journal: Journal
  turns: Turns
  /** How many replicas have welcomed this host. */
  welcomed(): number
  /** How many channels that were dialled back are open. */
  channels(): number
  /** Where the metrics are; undefined if they are not served. */
  metricsUrl: string | undefined
  /** Waits a while for work in progress, and leaves every desktop as it is. */
  close(): Promise<void>
  /** Stops as a killed process would: nothing is finished, nothing more is written. */
  kill(): Promise<void>
}

const tombstoneDays = 30
const closeMs = 8_000
const mib = 1024 * 1024
const dayMs = 86_400_000
const spaceEveryMs = 2_000
const memoryEveryMs = 1_000
const imagesEveryMs = 60_000
const figuresEveryMs = 3_600_000
const furnishEveryMs = 2_000
const templatesEveryMs = 60_000
const withoutLeaderEveryMs = 2_000

/** Takes its state folder, enrols if needed, opens the hypervisor, connects to the control plane. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { stateDir, adopt } = options.config
  openFolders(options.config)
  const folder = await takeFolder({ stateDir, adopt, log: options.log.child({ module: 'enrolment' }) })
  try {
    const agent = await start(options)
    return {
      ...agent,
      close: () => agent.close().finally(folder.release),
      kill: () => agent.kill().finally(folder.release),
    }
  } catch (error) {
    folder.release()
    throw error
  }
}

/** Makes the folders that are missing. If one cannot be used, the start ends before anything depends on it. */
function openFolders(config: AgentConfig): void {
  const { state, memory, disks } = foldersOf(config)
  privateFolder(state)
  privateFolder(memory)
  // Others may pass through, none may list: QEMU's user must reach the disks below.
  privateFolder(disks, 0o711)
  for (const path of [state, memory, disks]) accessSync(path, constants.W_OK | constants.X_OK)
}

async function start({ config, log, failpoints = noFailpoints, ...given }: AgentOptions): Promise<Agent> {
  const life = new AbortController()
  const identity = await enrol(config, log, given.signal ? AbortSignal.any([life.signal, given.signal]) : life.signal)
  const guestLog = log.child({ module: 'driver' })
  const tracing = await openTracing({
    url: config.otlpUrl,
    service: 'dormouse-agent',
    instance: config.name,
    share: config.traceShare,
    foreignParents: false,
    log: log.child({ module: 'telemetry' }),
  })
  const telemetry = new Telemetry(log, tracing)
  const driver = given.driver ?? makeDriver(config, guestLog, telemetry.libvirtCall)
  let control: Control | undefined
  const phases = new PhaseFilter(
    (name, report) => control?.say(name, report),
    (desktopId) => parts.turns.busy(desktopId),
  )
  const parts: Parts = await makeParts({
    installationId: identity.installationId,
    driver,
    folders: foldersOf(config),
    workAtOnce: workAtOnceOf(config),
    moves: { listen: config.moveAddress, mibPerSec: config.moveMibps },
    leaderGraceMs: config.idleWithoutLeaderMs,
    warm: warmOf(config),
    templatesMiB: config.templatesMiB,
    copies: copiesOf(config),
    thresholds: { cpuPercent: config.activeCpuPercent, networkKibps: config.activeNetworkKibps },
    failpoints: whileAlive(failpoints, life.signal),
    report: (name, report) => {
      telemetry.report(name, report)
      phases.send(name, report)
    },
    log: log.child({ module: 'desktops' }),
    guestLog,
  })
  startPeriodicWork(new PeriodicWork(log.child({ module: 'periodic' }), life.signal), parts, config.activityEveryMs)
  control = connect(config, identity, parts, telemetry, log)
  const metrics = await showMetrics(config, telemetry, control, log)
  return agentOf(identity, { ...parts, driver }, control, metrics, life)
}

function enrol(config: AgentConfig, log: Log, signal: AbortSignal): Promise<EnrolledHost> {
  const { stateDir, controlPlanes, enrolToken: token, name, allowHttp } = config
  return enrolled({ stateDir, controlPlanes, token, name, allowHttp, log: log.child({ module: 'enrolment' }), signal })
}

const workAtOnceOf = ({ workAtOnce }: AgentConfig): number => workAtOnce ?? 2 * availableParallelism()

const copiesOf = (config: AgentConfig): CopiesOptions => ({
  vaultsDir: config.vaultDir,
  cacheDir: foldersOf(config).vaultCache,
  ...(config.vaultMibps !== undefined && { limitKiBps: config.vaultMibps * 1_024 }),
})

function warmOf({ memoryMiB, warmPercent, warmSecs }: AgentConfig): PartsOptions['warm'] {
  const maxMiB = Math.floor(((memoryMiB ?? totalmem() / mib) * warmPercent) / 100)
  return { maxMiB, maxAgeMs: warmSecs * 1_000 }
}

function startPeriodicWork(periodic: PeriodicWork, parts: Parts, activityEveryMs: number): void {
  const { journal, space, warm, templates, furnishing, eviction, figures, samples, guestTroubles } = parts
  const { withoutLeader, execActivity } = parts
  const isHere = (desktopId: string) => (journal.read(desktopId)?.disk ?? 'none') !== 'none'
  periodic.every(dayMs, 'old tombstones', () => journal.prune(Date.now() - tombstoneDays * dayMs))
  periodic.every(spaceEveryMs, 'disk space', () => space.check())
  periodic.every(memoryEveryMs, 'memory for desktops', () => templates.giveWay().then(() => warm.check()))
  periodic.every(furnishEveryMs, 'networks of new desktops', () => furnishing.check())
  periodic.every(templatesEveryMs, 'templates', () => templates.check())
  periodic.every(imagesEveryMs, 'unused images', () => eviction.check())
  periodic.every(figuresEveryMs, 'figures of desktops that have gone', () => figures.prune(isHere))
  periodic.every(withoutLeaderEveryMs, 'idle desktops without a leader', () => withoutLeader.check())
  periodic.every(activityEveryMs, 'activity of guests', () => samples.sample())
  periodic.every(activityEveryMs, 'troubles of guests', () => guestTroubles.look())
  periodic.every(activityEveryMs, 'running execs', () => execActivity.look())
}

function connect(config: AgentConfig, identity: EnrolledHost, parts: Parts, telemetry: Telemetry, log: Log): Control {
  const { moveAddress } = config
  const reports = new ActivityReports(parts.activity)
  let clockOffsetMs: number | undefined
  const imageFacts = new ImageFacts(parts.driver.images, parts.fetcher)
  const facts = new Facts(
    parts.driver,
    () => parts.space.problem,
    {
      workAtOnce: workAtOnceOf(config),
      moveAddress: moveAddress ? `${moveAddress.host}:${moveAddress.port}` : null,
    },
    async () => ({
      ...(await imageFacts.current()),
      warm: parts.warm.facts,
      upgradable: parts.rootUnit.isThere,
      ...(clockOffsetMs !== undefined && { clockOffsetMs }),
      ...(config.templatesMiB > 0 && { templates: parts.templates.facts }),
      vaults: await parts.copies.names(),
    }),
  )
  const hostKey = new HostKey({
    stateDir: config.stateDir,
    identity,
    replaced: () => control.redial(),
    log: log.child({ module: 'enrolment' }),
  })
  const control = new Control({
    seeds: identity.controlPlanes,
    mayDial: dialRule({ allowHttp: identity.allowHttp, log }),
    prove: (hands) => hostKey.prove(hands),
    handlers: (dialBack) => linkHandlers({ ...parts, hostKey }, { dialBack, observe: telemetry.command }),
    hello: () => sayHello(parts, facts),
    heard: (answer, at) => {
      if (answer.now !== undefined) clockOffsetMs = Math.round(answer.now - at)
      parts.withoutLeader.heard(answer)
    },
    heartbeat: (link) => sayHeartbeat({ ...parts, facts, reports }, link),
    log: log.child({ module: 'control' }),
  })
  return control
}

async function showMetrics(
  { metricsListen }: AgentConfig,
  telemetry: Telemetry,
  control: Control,
  log: Log,
): Promise<MetricsServer> {
  telemetry.show('dormouse_agent_links', 'Replicas that have welcomed this host', () => control.welcomed)
  telemetry.show('dormouse_agent_channels', 'Open byte channels, for files and screens', () => control.channels)
  const server = await serveMetrics(metricsListen, () => telemetry.text(), log.child({ module: 'telemetry' }))
  const close = async () => {
    server.close()
    await telemetry.close()
  }
  return { url: server.url, close }
}

function agentOf(
  identity: Identity,
  parts: Parts & { driver: AnyDriver },
  control: Control,
  metrics: MetricsServer,
  life: AbortController,
): Agent {
  const { journal, turns, digests, templates, guests, driver, moves, listener, fetcher, inputs, pictures } = parts
  const disconnect = async () => {
    moves.close()
    listener.close()
    await fetcher.close()
    await metrics.close()
    guests.close()
    inputs.close()
    pictures.close()
    await driver.close()
  }
  return {
    hostId: identity.hostId,
    installationId: identity.installationId,
    driver,
    journal,
    turns,
    welcomed: () => control.welcomed,
    channels: () => control.channels,
    metricsUrl: metrics.url,
    close: async () => {
      await control.close()
      await before(performance.now() + closeMs, turns.settled())
      await templates.close()
      await digests.close()
      await journal.close()
      life.abort(new Error('the agent was closed'))
      await disconnect()
    },
    kill: async () => {
      life.abort(new Error('the agent was killed'))
      void templates.close()
      await control.close()
      await journal.close()
      await disconnect()
    },
  }
}

/** A killed agent does nothing more: each failpoint throws from then on. */
function whileAlive(failpoints: Failpoints, life: AbortSignal): Failpoints {
  return {
    hit: async (name) => {
      life.throwIfAborted()
      await failpoints.hit(name)
      life.throwIfAborted()
    },
  }
}

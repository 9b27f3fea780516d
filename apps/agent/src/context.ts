// Makes each long-lived part of an agent once and joins them; decides nothing.
import { availableParallelism } from 'node:os'
import { type HostFacts, linkProtocol } from '@dormouse/contract'
import { type Failpoints, type Log, noFailpoints } from '@dormouse/process'
import { Care } from './care.ts'
import { CallsAtOnce } from './commands/calls-at-once.ts'
import { linkHandlers } from './commands/table.ts'
import { type AgentConfig, foldersOf } from './config.ts'
import { Control } from './control.ts'
import { Digests } from './desktops/digests.ts'
import type { Ground } from './desktops/ground.ts'
import { believed, inventory, raiseJournals } from './desktops/inventory.ts'
import { Journal } from './desktops/journal.ts'
import { MemoryImages } from './desktops/memory-images.ts'
import { Space } from './desktops/space.ts'
import { Turns } from './desktops/turns.ts'
import { Watch } from './desktops/watch.ts'
import type { Driver } from './driver/driver.ts'
import { enrolled } from './enrolment/enrol.ts'
import { dialToken, type Identity } from './enrolment/identity.ts'
import { takeFolder } from './enrolment/possession.ts'
import { prove } from './enrolment/prove.ts'
import { dialRule } from './enrolment/transport.ts'
import { Facts } from './facts.ts'
import { Transfers } from './guest/transfers.ts'
import { makeDriver } from './make-driver.ts'
import { Slots } from './mechanics/locks.ts'

export interface AgentOptions {
  config: AgentConfig
  log: Log
  /** Stands in for the configured one, so that a test can reach its knobs. */
  driver?: Driver
  failpoints?: Failpoints
}

export interface Agent {
  hostId: string
  installationId: string
  driver: Driver
  ground: Ground
  turns: Turns
  /** How many replicas have welcomed it. */
  welcomed(): number
  /** How many channels it has dialled back that are open. */
  channels(): number
  /** Lets work under way end, for a while, and leaves every desktop as it is. */
  close(): Promise<void>
  /** Stops as a killed process would: no goodbye, nothing is finished, nothing more is written. */
  kill(): Promise<void>
}

const tombstoneDays = 30
const closePatienceMs = 8_000
const lookPatienceMs = 2_000
const dayMs = 86_400_000
const spaceEveryMs = 2_000

/** Takes its state folder, enrols where needed, opens the hypervisor, dials the control plane. */
export async function startAgent(options: AgentOptions): Promise<Agent> {
  const { stateDir, adopt } = options.config
  const folder = await takeFolder({ stateDir, adopt, log: options.log.child({ room: 'enrolment' }) })
  try {
    const agent = await begin(options)
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

async function begin({ config, log, failpoints = noFailpoints, ...given }: AgentOptions): Promise<Agent> {
  const life = new AbortController()
  const identity = await enrolled({
    stateDir: config.stateDir,
    controlPlanes: config.controlPlanes,
    token: config.enrolToken,
    name: config.name,
    allowHttp: config.allowHttp,
    log: log.child({ room: 'enrolment' }),
    signal: life.signal,
  })
  const driver = given.driver ?? makeDriver(config, log.child({ room: 'driver' }))
  const mortal = failpointsOf(failpoints, life.signal)
  const care = new Care(log.child({ room: 'care' }), life.signal)
  const { ground, turns, watch, space, link } = await rooms({ config, identity, driver, failpoints: mortal, log, care })
  const facts = new Facts(driver, () => space.ailment)
  const transfers = new Transfers()
  const calls = new CallsAtOnce()
  const control = new Control({
    seeds: config.controlPlanes,
    mayDial: dialRule({ allowHttp: config.allowHttp, strict: identity.strictTransport, log }),
    token: () => dialToken(identity),
    prove: (hands) => prove(hands, identity),
    handlers: (dialBack) => linkHandlers({ ground, turns, calls, transfers }, dialBack),
    hello: () => sayHello(ground, identity, facts),
    heartbeat: () => sayHeartbeat(ground, watch, facts),
    log: log.child({ room: 'control' }),
  })
  link(control)
  const stop = async () => {
    await control.close()
    await driver.close()
  }
  return {
    hostId: identity.hostId,
    installationId: identity.installationId,
    driver,
    ground,
    turns,
    welcomed: () => control.welcomed,
    channels: () => control.channels,
    close: async () => {
      await control.close()
      await Promise.race([turns.settled(), pause(closePatienceMs)])
      await ground.digests.close()
      life.abort(new Error('the agent was closed'))
      await driver.close()
    },
    kill: () => {
      life.abort(new Error('the agent was killed'))
      return stop()
    },
  }
}

interface Parts {
  config: AgentConfig
  identity: Identity
  driver: Driver
  failpoints: Failpoints
  log: Log
  care: Care
}

async function rooms({ config, identity: { installationId }, driver, failpoints, log, care }: Parts) {
  const folders = foldersOf(config)
  const journal = await Journal.open(folders.state, () => failpoints.hit('journal.before-write'))
  care.every(dayMs, 'old tombstones', () => journal.prune(Date.now() - tombstoneDays * dayMs))
  const memory = new MemoryImages(folders.memory, installationId)
  const roomLog = log.child({ room: 'desktops' })
  let control: Control | undefined
  const ground: Ground = {
    installationId,
    driver,
    journal,
    memory,
    digests: new Digests(memory, (err) => roomLog.warn({ err }, 'a digest could not be made')),
    slots: new Slots(config.workAtOnce ?? 2 * availableParallelism()),
    failpoints,
    say: (name, report) => control?.say(name, report),
    log: roomLog,
  }
  await driver.open(installationId)
  const turns: Turns = new Turns(journal, (desktopId) => watch.idle(desktopId))
  const watch = new Watch(ground, turns)
  const space = new Space(ground, turns, watch)
  care.every(spaceEveryMs, 'room on the disk', () => space.tend())
  const link = (linked: Control) => {
    control = linked
  }
  return { ground, turns, watch, space, link }
}

/** Where the hypervisor does not answer, the journal's word stands in, and the facts say so. */
async function sayHello(ground: Ground, { installationId }: Identity, facts: Facts) {
  const host = await facts.current()
  return {
    protocol: linkProtocol,
    installationId,
    facts: host,
    inventory: await items(ground, host),
    highestEpoch: ground.journal.highestEpoch,
  }
}

async function items(ground: Ground, { ailment }: HostFacts) {
  try {
    await raiseJournals(ground)
    return await inventory(ground)
  } catch (error) {
    ground.log.warn({ err: error, ailment }, 'the inventory could not be taken; the journal stands in')
    return believed(ground)
  }
}

/** What runs is billed: it is said from a look of this moment, and where the hypervisor does not answer, not at all. */
async function sayHeartbeat(ground: Ground, watch: Watch, facts: Facts) {
  const look = watch.lookAround().then(
    () => true,
    (err: unknown) => {
      ground.log.warn({ err }, 'the domains could not be listed')
      return false
    },
  )
  const looked = await Promise.race([look, pause(lookPatienceMs).then(() => false)])
  return { facts: await facts.current(), running: looked ? watch.running() : [] }
}

/** A killed agent does nothing more, wherever it stands. */
function failpointsOf(failpoints: Failpoints, life: AbortSignal): Failpoints {
  return {
    hit: async (name) => {
      life.throwIfAborted()
      await failpoints.hit(name)
      life.throwIfAborted()
    },
  }
}

const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms).unref())

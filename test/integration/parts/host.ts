// One simulated host of a stack: its folder outlives the agent, its agent can be killed and started again.
import { randomUUID } from 'node:crypto'
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AgentConfig, configSchema } from '@dormouse/agent/config.ts'
import { type Agent, startAgent } from '@dormouse/agent/context.ts'
import type { Driver } from '@dormouse/agent/driver/driver.ts'
import type { SimulatedDriver } from '@dormouse/agent/driver/simulated/simulated.ts'
import { simulatedFrom } from '@dormouse/agent/make-driver.ts'
import type { Observation } from '@dormouse/contract'
import { ArmedFailpoints, type Log, readConfig } from '@dormouse/process'

import type { Chronicle } from './chronicle.ts'

export interface HostOptions {
  name: string
  controlPlane: string
  invite: string
  log: Log
  chronicle: Chronicle
  agent?: Partial<AgentConfig> | undefined
}

export class Host {
  readonly failpoints = new ArmedFailpoints()
  /** Everything the host keeps: journal, memory images, simulated domains and disks. */
  readonly folder: string
  readonly name: string
  readonly #config: AgentConfig
  readonly #log: Log
  #driver: SimulatedDriver
  #agent: Agent | undefined
  readonly #chronicle: Chronicle
  #id = ''
  #life = ''

  private constructor({ name, controlPlane, invite, log, chronicle, agent }: HostOptions) {
    this.#chronicle = chronicle
    this.name = name
    this.folder = mkdtempSync(join(tmpdir(), 'dormouse-host-'))
    const env = {
      DORMOUSE_AGENT_CONTROL_PLANES: controlPlane,
      DORMOUSE_AGENT_ENROL_TOKEN: invite,
      DORMOUSE_AGENT_STATE_DIR: this.folder,
      DORMOUSE_AGENT_NAME: name,
      DORMOUSE_AGENT_DRIVER: 'simulated',
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
      // So that wakes restore what was saved; test/integration/warm.test.ts shows the same with warm copies.
      DORMOUSE_AGENT_WARM_PERCENT: '0',
      // So that first wakes boot; test/integration/templates.test.ts shows the same with templates.
      DORMOUSE_AGENT_TEMPLATES_MIB: '0',
    }
    this.#config = { ...readConfig(configSchema, env), ...agent }
    this.#log = log.child({ host: name })
    this.#driver = simulatedFrom(this.#config)
  }

  static async start(options: HostOptions): Promise<Host> {
    const host = new Host(options)
    await host.#begin()
    return host
  }

  get id(): string {
    return this.#id
  }

  /** The address of its metrics. */
  get metricsUrl(): string | undefined {
    return this.#agent?.metricsUrl
  }

  /** Channels that its agent has dialled back and that are open now. */
  get channels(): number {
    return this.#agent?.channels() ?? 0
  }

  /** The simulated hypervisor, with its knobs; another object after a restart of the agent. */
  get driver(): SimulatedDriver {
    return this.#driver
  }

  /** The part of its key that never leaves it. */
  get privateKey(): string | undefined {
    const file = join(this.folder, 'identity.json')
    return existsSync(file) ? (JSON.parse(readFileSync(file, 'utf8')) as { key: { d: string } }).key.d : undefined
  }

  get up(): boolean {
    return this.#agent !== undefined
  }

  /** As kill -9: no goodbye, nothing is finished. Its desktops go on. */
  async kill(): Promise<void> {
    const agent = this.#agent
    this.#agent = undefined
    this.#chronicle.bury(this.#life)
    await agent?.kill()
  }

  /** A new agent over the same folder; kills the one that is there. */
  async restart(): Promise<void> {
    await this.kill()
    this.#driver = simulatedFrom(this.#config)
    await this.#begin()
  }

  /** What the hypervisor itself has, without asking the agent. */
  async holds(desktopId: string): Promise<{ domain: string; disk: boolean }> {
    const hypervisor: Driver = simulatedFrom({ ...this.#config, simulatedFail: [], simulatedLatencyMs: [] })
    const domain = await hypervisor.domain(desktopId)
    return { domain: domain?.state ?? 'absent', disk: await hypervisor.hasDisk(desktopId) }
  }

  /** Runs a script in the guest, even if its desktop does not count as awake yet. */
  async inGuest(desktopId: string, script: string): Promise<void> {
    await this.#driver.guest(desktopId, { bringIn: async () => undefined, log: this.#log }).run(script)
  }

  /** The last thing that the host was asked to do with a desktop, as its journal has it. */
  async commandsOf(desktopId: string): Promise<string[]> {
    const entry = this.#agent?.journal.read(desktopId)
    return entry?.state === 'doing' && entry.command ? [verbOf(entry.command)] : []
  }

  /** Waits until no command is at work on it. */
  async settled(): Promise<void> {
    await this.#agent?.turns.settled()
  }

  async close(): Promise<void> {
    const agent = this.#agent
    this.#agent = undefined
    await agent?.close()
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 20 })
  }

  async #begin(): Promise<void> {
    const { failpoints } = this
    this.#life = randomUUID()
    const log = this.#log.child({ life: this.#life })
    this.#agent = await startAgent({ config: this.#config, log, driver: this.#driver, failpoints })
    this.#id = this.#agent.hostId
  }
}

const verbs: Record<string, string> = {
  'desktop.ensureDisk': 'wake',
  'desktop.ensureAwake': 'wake',
  'desktop.ensureHibernated': 'hibernate',
  'desktop.ensureDestroyed': 'destroy',
}
const verbOf = (command: string): string => verbs[command] ?? command

/** What a host has of a desktop, in short: `running`, `saved`, `disk` or `nothing`, or all of it if it is none of these. */
export function inShort(item: Observation | undefined): string {
  if (!item) return 'nothing'
  const { domain, memory, disk } = item
  const saved = memory === 'complete'
  if (domain === 'running' && disk && memory === 'none') return 'running'
  if (domain === 'absent' && saved && disk) return 'saved'
  if (domain === 'absent' && memory === 'none') return disk ? 'disk' : 'nothing'
  return `domain ${domain}, memory ${memory}, disk ${disk}`
}

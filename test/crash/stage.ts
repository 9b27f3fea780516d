// One control plane and one agent as real processes on a database of their own, and what a trial asks of them.
import { mkdirSync } from 'node:fs'
import { readdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { configSchema, foldersOf } from '@dormouse/agent/config.ts'
import { inventory } from '@dormouse/agent/desktops/inventory.ts'
import { Journal } from '@dormouse/agent/desktops/journal.ts'
import { MemoryImages } from '@dormouse/agent/desktops/memory-images.ts'
import type { ImageStore } from '@dormouse/agent/images/store.ts'
import { makeDriver } from '@dormouse/agent/make-driver.ts'
import type { DesktopJson, HostJson, Observation, OperationJson } from '@dormouse/contract'
import { Links } from '@dormouse/control-plane/agents/links.ts'
import { migrate } from '@dormouse/control-plane/db/migrate.ts'
import { openPool, type Pool } from '@dormouse/control-plane/db/pool.ts'
import { Hosts } from '@dormouse/control-plane/hosts/service.ts'
import { Principals } from '@dormouse/control-plane/principals/service.ts'
import { createLog, readConfig } from '@dormouse/process'
import { freePort } from '../free-port.ts'
import { type ApiAnswer, type ApiWish, send } from '../integration/parts/api.ts'
import { waitFor } from '../wait-for.ts'
import { Child } from './child.ts'
import type { HostTestbed } from './testbeds.ts'

export type AgentName = 'agent' | 'other-agent'
export type Victim = 'control-plane' | AgentName

const failpointVariable: Record<Victim, string> = {
  'control-plane': 'DORMOUSE_FAILPOINTS',
  agent: 'DORMOUSE_AGENT_FAILPOINTS',
  'other-agent': 'DORMOUSE_AGENT_FAILPOINTS',
}
/** The hosts' names. */
const hostOf: Record<AgentName, string> = { agent: 'host', 'other-agent': 'other-host' }

export class Stage {
  readonly testbed: HostTestbed
  readonly pool: Pool
  readonly #children: Partial<Record<Victim, Child>>
  readonly #folder: string
  readonly #url: string
  readonly #keys: { customer: string; operator: string }
  readonly #installationId: string
  /** The path of each wake that has succeeded, by its operation. */
  readonly #paths = new Map<string, string>()

  private constructor(given: {
    testbed: HostTestbed
    pool: Pool
    children: Partial<Record<Victim, Child>>
    folder: string
    url: string
    keys: { customer: string; operator: string }
    installationId: string
  }) {
    this.testbed = given.testbed
    this.pool = given.pool
    this.#children = given.children
    this.#folder = given.folder
    this.#url = given.url
    this.#keys = given.keys
    this.#installationId = given.installationId
  }

  /** Both processes up, the host linked. `databaseUrl` is an empty database. */
  static async start(testbed: HostTestbed, databaseUrl: string, folder: string): Promise<Stage> {
    mkdirSync(folder, { recursive: true })
    const pool = openPool(databaseUrl, 2, () => undefined)
    const log = createLog({ name: 'crash', level: 'silent' })
    await migrate({ databaseUrl, log })
    const principals = new Principals(pool, log)
    const org = await principals.createOrg('crash')
    const keys = {
      customer: (await principals.createKey(org.id, 'crash')).api_key,
      operator: await principals.createOperatorKey('crash'),
    }
    const { rows } = await pool.query<{ id: string }>('select id from installation')
    const installationId = rows[0]!.id
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const quick = {
      DORMOUSE_HEARTBEAT_SECS: '0.5',
      DORMOUSE_LEASE_SECS: '3',
      DORMOUSE_DATABASE_POOL: '8',
      DORMOUSE_TIER_SMALL: '1,256,10',
    }
    const children = {
      'control-plane': new Child({
        file: 'apps/control-plane/src/main.ts',
        env: { DATABASE_URL: databaseUrl, PORT: String(port), DORMOUSE_LOG_LEVEL: 'info', ...quick },
        logFile: join(folder, 'control-plane.log'),
      }),
    }
    const stage = new Stage({ testbed, pool, children, folder, url, keys, installationId })
    children['control-plane'].start()
    await stage.addHost('agent')
    return stage
  }

  /** A host of that agent, linked. */
  async addHost(agent: AgentName): Promise<void> {
    const log = createLog({ name: 'crash', level: 'silent' })
    // No wake runs in this process.
    const leadership = { transaction: () => Promise.reject(new Error('this process never leads')) }
    const settings = { leadership, vcpusPerProcessor: 32, quarantineMs: 0 }
    const options = { pool: this.pool, links: new Links(), installationId: this.#installationId, ...settings, log }
    const { token } = await new Hosts(options).invite(hostOf[agent])
    const child = new Child({
      file: 'apps/agent/src/main.ts',
      env: {
        DORMOUSE_AGENT_CONTROL_PLANES: this.#url,
        DORMOUSE_AGENT_ENROL_TOKEN: token,
        DORMOUSE_AGENT_NAME: hostOf[agent],
        DORMOUSE_AGENT_MOVE_ADDRESS: `127.0.0.1:${await freePort()}`,
        ...this.#envOf(agent),
      },
      logFile: join(this.#folder, `${agent}.log`),
    })
    this.#children[agent] = child
    child.start()
    await this.ready()
  }

  #envOf(agent: AgentName): Record<string, string> {
    const { agentEnv, otherAgentEnv } = this.testbed
    if (agent === 'agent') return agentEnv
    if (!otherAgentEnv) throw new Error(`the testbed "${this.testbed.name}" has one host`)
    return otherAgentEnv
  }

  /** Waits until the control plane leads and its hosts are linked and heard of. Throws at once when a process has ended. */
  async ready(): Promise<void> {
    const { patienceMs } = this.testbed
    const expectAlive = () => {
      for (const child of Object.values(this.#children)) child.expectAlive()
    }
    await waitFor(
      'the control plane to lead',
      async () => {
        expectAlive()
        return (await this.#quietly('GET', '/readyz'))?.json?.leads === true
      },
      patienceMs,
    )
    await waitFor(
      'the hosts to link',
      async () => {
        expectAlive()
        const answer = await this.#quietly('GET', '/admin/v1/hosts', { key: this.#keys.operator })
        const linked = (answer?.json?.hosts as HostJson[] | undefined)?.filter(
          ({ linked, state }) => linked && state === 'active',
        )
        return linked?.length === Object.keys(this.#children).length - 1
      },
      patienceMs,
    )
  }

  /** What the SDK needs, as the customer. */
  get customer(): { baseUrl: string; apiKey: string } {
    return { baseUrl: this.#url, apiKey: this.#keys.customer }
  }

  api(method: string, path: string, wish: ApiWish = {}): Promise<ApiAnswer> {
    return send(this.#url + path, method, { key: this.#keys.customer, ...wish })
  }

  admin(method: string, path: string, body: object): Promise<ApiAnswer> {
    return this.api(method, `/admin/v1/${path}`, { key: this.#keys.operator, body })
  }

  /** The answer, or undefined if nobody answers. */
  async #quietly(method: string, path: string, wish: ApiWish = {}): Promise<ApiAnswer | undefined> {
    return this.api(method, path, wish).catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ECONNREFUSED' || error.code === 'ECONNRESET') return undefined
      throw error
    })
  }

  async see(id: string): Promise<DesktopJson> {
    return (await this.api('GET', `/v1/desktops/${id}`)).json as DesktopJson
  }

  async operation(id: string): Promise<OperationJson | undefined> {
    const { status, json } = await this.api('GET', `/v1/operations/${id}`)
    return status === 200 ? this.#noted(json as OperationJson) : undefined
  }

  /** How many wakes took which path. */
  get paths(): Record<string, number> {
    const counts: Record<string, number> = {}
    for (const path of this.#paths.values()) counts[path] = (counts[path] ?? 0) + 1
    return counts
  }

  #noted(operation: OperationJson): OperationJson {
    const { path } = (operation.result ?? {}) as { path?: string }
    if (path) this.#paths.set(operation.id, path)
    return operation
  }

  async ask(id: string, kind: string): Promise<OperationJson> {
    const answer = await this.api('POST', `/v1/desktops/${id}/${kind}?wait=true`)
    if (answer.status !== 200) throw new Error(`${kind}: ${answer.status} ${answer.text}`)
    return this.#noted(answer.json as OperationJson)
  }

  /** What a command in the guest prints; undefined if it cannot be run. */
  async print(id: string, command: string): Promise<string | undefined> {
    const path = `/v1/desktops/${id}/exec`
    // A host that was linked a moment ago may not be any more.
    const answer = await waitFor('the host to be linked', async () => {
      const given = await this.api('POST', path, { body: { command } })
      return given.status !== 503 && given
    })
    return answer.status === 200 ? (answer.json.stdout as string).trim() : undefined
  }

  /** By desktop: the operation that stands in the database under one of these keys. */
  async writtenDown(keys: string[]): Promise<Map<string, string>> {
    const { rows } = await this.pool.query<{ id: string; desktop: string }>(
      'select id, desktop_id as desktop from operations where idempotency_key = any($1)',
      [keys],
    )
    return new Map(rows.map(({ id, desktop }) => [desktop, id]))
  }

  /** MiB of memory that each desktop holds of a host. */
  async held(): Promise<Map<string, number>> {
    const { rows } = await this.pool.query<{ id: string; memory: number }>(
      'select desktop_id as id, memory_mib as memory from reservations',
    )
    return new Map(rows.map(({ id, memory }) => [id, memory]))
  }

  #secondDriver(agent: AgentName) {
    const env = { ...this.#envOf(agent), DORMOUSE_AGENT_CONTROL_PLANES: this.#url }
    const config = { ...readConfig(configSchema, env), simulatedLatencyMs: [] }
    return { folders: foldersOf(config), driver: makeDriver(config, createLog({ name: 'judge', level: 'silent' })) }
  }

  /** The images that the host truly has. */
  get images(): ImageStore {
    return this.#secondDriver('agent').driver.images
  }

  /** What a host truly has, seen by a second pair of eyes over the same folders and hypervisor. */
  async inventory(agent: AgentName = 'agent'): Promise<Observation[]> {
    const { folders, driver } = this.#secondDriver(agent)
    await driver.open(this.#installationId)
    try {
      const journal = Journal.view(folders.state)
      const memory = new MemoryImages(folders.memory, this.#installationId)
      return await inventory({ driver, journal, memory })
    } finally {
      await driver.close()
    }
  }

  /** What is on the host of templates that are not whole, of their guests, and of copies of their memory. */
  async leftovers(): Promise<string[]> {
    const { memory, templates } = this.#secondDriver('agent').folders
    const namesIn = (folder: string) => readdir(folder, { recursive: true }).catch((): string[] => [])
    const isHalf = (name: string) => /^[^/]*\.(new|gone)$/.test(name)
    return [
      ...(await this.testbed.templateGuests()),
      ...(await namesIn(templates)).filter(isHalf),
      ...(await namesIn(memory)).filter((name) => name.endsWith('/template')),
    ]
  }

  /** The host reports one: it has booted the image before, and compared the files since its agent started. */
  async templateMade(): Promise<void> {
    const isMade = async () => {
      const { json } = await this.api('GET', '/admin/v1/hosts', { key: this.#keys.operator })
      const host = (json.hosts as HostJson[]).find(({ name }) => name === hostOf.agent)
      return (host?.templates?.length ?? 0) > 0
    }
    await waitFor('a template', isMade, this.testbed.patienceMs)
  }

  /** Asks for the end of all warm copies, and does not wait for it: the agent may die of it. */
  dropWarmCopies(): void {
    const path = `/admin/v1/hosts/${hostOf.agent}/drop-warm-copies`
    void this.#quietly('POST', path, { key: this.#keys.operator }).catch(() => undefined)
  }

  /** The agent of the desktop's host, as the database has it, and the other one. */
  async agentsOf(desktopId: string): Promise<[AgentName, AgentName]> {
    const { rows } = await this.pool.query<{ name: string }>(
      'select h.name from desktops d join hosts h on h.id = d.host_id where d.id = $1',
      [desktopId],
    )
    return rows[0]?.name === hostOf.agent ? ['agent', 'other-agent'] : ['other-agent', 'agent']
  }

  /** How many commands are deferred. */
  async deferred(): Promise<number> {
    const { rows } = await this.pool.query<{ count: number }>('select count(*)::int as count from deferred_commands')
    return rows[0]!.count
  }

  #child(victim: Victim): Child {
    return this.#children[victim] ?? raise(`there is no ${victim}`)
  }

  alive(victim: Victim): boolean {
    return this.#child(victim).alive
  }

  kill(victim: Victim): Promise<void> {
    return this.#child(victim).kill()
  }

  async start(victim: Victim): Promise<void> {
    this.launch(victim)
    await this.ready()
  }

  /** Starts it, perhaps with a failpoint armed at which it dies before it is ready. */
  launch(victim: Victim, failpoint?: string): void {
    this.#child(victim).start(failpoint === undefined ? {} : { [failpointVariable[victim]]: failpoint })
  }

  /** Stops it in order and starts it with a failpoint armed. If that is in the making of a template, there is none meanwhile. */
  async arm(victim: Victim, failpoint: string): Promise<void> {
    await this.#child(victim).kill('SIGTERM')
    if (failpoint.startsWith('template.'))
      await rm(this.#secondDriver('agent').folders.templates, { recursive: true, force: true })
    this.launch(victim, failpoint)
    // What a start goes on with may come to the failpoint.
    await this.ready().catch((error: unknown) => {
      if (this.alive(victim)) throw error
    })
  }

  async close(): Promise<void> {
    for (const victim of ['other-agent', 'agent', 'control-plane'] as const)
      await this.#children[victim]?.kill('SIGTERM')
    await this.pool.end()
    await this.testbed.close()
  }
}

const raise = (why: string): never => {
  throw new Error(why)
}

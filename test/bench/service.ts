// The service of one checkout as its operators run it: a control plane and simulated hosts in processes of their own, on a
// database of its own. Knows no subject.
import { randomBytes } from 'node:crypto'
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { createAdminClient } from '@dormouse/client'
import pg from 'pg'
import { controlPlaneOptions } from '../../scripts/testbed/control-plane-options.ts'
import { run } from '../../scripts/testbed/processes.ts'
import { Child } from '../crash/child.ts'
import { freePort } from '../free-port.ts'
import { databaseNamed, query } from '../setup/postgres.ts'
import { waitFor } from '../wait-for.ts'
import { Connection } from './connection.ts'
import { cpuMs, postgresCpuMs } from './cpu.ts'

export const thisCheckout = fileURLToPath(new URL('../../', import.meta.url))

export interface ServiceOptions {
  /** The root of a repository of this project, with its packages installed. */
  checkout: string
  postgres: { url: string; dataDir: string }
  /** Holds logs and the hosts' state. */
  folder: string
  hosts: number
  settings?: Record<string, string>
  agentSettings?: Record<string, string>
}

/** One client sends what many do. */
export const unlimited = {
  DORMOUSE_RATE_LIMIT_PER_SECOND: '1000000',
  DORMOUSE_RATE_LIMIT_STRANGERS_PER_SECOND: '1000000',
  DORMOUSE_MAX_CONNECTIONS_PER_CREDENTIAL: '1000000',
  DORMOUSE_MAX_CONNECTIONS_PER_ADDRESS: '1000000',
  DORMOUSE_MAX_CONNECTIONS: '1000000',
  DORMOUSE_MAX_DESKTOPS_PER_ORG: '1000000',
}

const startMs = 60_000

export class Service {
  readonly checkout: string
  readonly url: string
  readonly databaseUrl: string
  readonly database: pg.Pool
  readonly folder: string
  readonly hosts: Child[] = []
  readonly controlPlane: Child
  readonly #replicas: Child[] = []
  readonly #settings: Record<string, string>
  readonly #postgres: ServiceOptions['postgres']
  #operatorKey = ''
  #org = { id: '', key: '' }

  private constructor({ checkout, postgres, folder, settings }: ServiceOptions, databaseUrl: string, port: number) {
    this.checkout = checkout
    this.folder = folder
    this.#postgres = postgres
    this.databaseUrl = databaseUrl
    this.database = new pg.Pool({ connectionString: databaseUrl, max: 2, application_name: 'bench' })
    this.database.on('error', () => undefined)
    this.url = `http://127.0.0.1:${port}`
    this.#settings = { ...unlimited, DATABASE_URL: databaseUrl, ...settings }
    this.controlPlane = this.#controlPlaneAt(port, this.logFile)
  }

  static async start(options: ServiceOptions): Promise<Service> {
    mkdirSync(options.folder, { recursive: true })
    const name = `bench_${randomBytes(6).toString('hex')}`
    await query(options.postgres.url, `create database ${name}`)
    const service = new Service(options, databaseNamed(options.postgres.url, name), await freePort())
    try {
      await service.#begin(options)
      return service
    } catch (error) {
      await service.stop()
      throw error
    }
  }

  get logFile(): string {
    return join(this.folder, 'control-plane.log')
  }

  /** The log files of all control planes. */
  get logFiles(): string[] {
    return [this.logFile, ...this.#replicas.map((_, at) => this.#standbyLog(at))]
  }

  get org(): { id: string; key: string } {
    return this.#org
  }

  get admin() {
    return createAdminClient({ baseUrl: this.url, operatorKey: this.#operatorKey })
  }

  /** From here on, requests are those of a new organisation without desktops. */
  async enterNewOrg(): Promise<void> {
    const { id } = await this.admin.createOrg({ name: 'bench' })
    this.#org = { id, key: (await this.admin.createKey({ org_id: id, name: 'bench' })).api_key }
  }

  /** A keep-alive connection with the organisation's key, to the first control plane or to another. */
  connect(url = this.url): Connection {
    return new Connection(url, this.#org.key)
  }

  /** Creates this many desktops, 16 at a time; their ids. */
  async create(count: number): Promise<string[]> {
    const ids: string[] = []
    let left = count
    const work = async () => {
      const connection = this.connect()
      while (left-- > 0) {
        const { status, body } = await connection.send('POST', '/v1/desktops', '{"tier":"small"}')
        if (status !== 201) throw new Error(`create: ${status} ${body}`)
        ids.push((JSON.parse(body) as { id: string }).id)
      }
      connection.close()
    }
    await Promise.all(Array.from({ length: Math.min(16, count) }, work))
    return ids
  }

  /** CPU time used so far, in ms, by the kind of process. Postgres is shared by all services of a run. */
  cpuMs(): Record<string, number> {
    return {
      'control plane': cpuMs(this.controlPlane.pid!),
      hosts: this.hosts.reduce((sum, host) => sum + cpuMs(host.pid!), 0),
      Postgres: postgresCpuMs(this.#postgres.dataDir),
    }
  }

  /** Starts the control plane again, with its heap as at the start. */
  async restartControlPlane(): Promise<void> {
    await this.controlPlane.kill('SIGTERM')
    this.controlPlane.start()
    await this.ready(this.hosts.length)
  }

  /** Starts a second control plane on the same database and waits until every host is linked to it; its URL. */
  async startStandby(): Promise<string> {
    const port = await freePort()
    const url = `http://127.0.0.1:${port}`
    const standby = this.#controlPlaneAt(port, this.#standbyLog(this.#replicas.length))
    this.#replicas.push(standby)
    standby.start()
    await this.#linked(url, await this.#linkedTo(this.url))
    return url
  }

  /** Waits until this many hosts are linked to that replica. A list of many hosts is expensive, so it is not read often. */
  #linked(url: string, hosts: number): Promise<void> {
    const pauseMs = Math.min(1_000, hosts * 2)
    const enough = async () => (await this.#linkedTo(url)) >= hosts || void (await sleep(pauseMs))
    return waitFor(`${hosts} hosts to link`, enough, startMs).then(() => undefined)
  }

  /** Waits until the control plane leads and this many hosts are linked. */
  async ready(hosts: number): Promise<void> {
    await waitFor('the control plane to lead', () => this.#leads(), startMs)
    if (hosts > 0) await this.#linked(this.url, hosts)
  }

  async stop(): Promise<void> {
    await Promise.all([...this.hosts, this.controlPlane, ...this.#replicas].map((child) => child.kill('SIGTERM')))
    await this.database.end()
    await query(this.#postgres.url, `drop database ${new URL(this.databaseUrl).pathname.slice(1)} with (force)`)
  }

  async #begin({ checkout, hosts, agentSettings }: ServiceOptions): Promise<void> {
    const main = join(checkout, 'apps/control-plane/src/main.ts')
    const env = { ...process.env, DATABASE_URL: this.databaseUrl }
    this.#operatorKey = (await run(process.execPath, [main, 'operator-key', '--name', 'bench'], { env })).trim()
    this.controlPlane.start()
    await this.ready(0)
    await this.enterNewOrg()
    for (let at = 1; at <= hosts; at++) await this.#addHost(`host-${at}`, agentSettings)
    await this.ready(hosts)
  }

  async #addHost(name: string, settings: Record<string, string> = {}): Promise<void> {
    const { token } = await this.admin.inviteHost({ name })
    const host = new Child({
      checkout: this.checkout,
      file: 'apps/agent/src/main.ts',
      env: {
        DORMOUSE_AGENT_CONTROL_PLANES: this.url,
        DORMOUSE_AGENT_ENROL_TOKEN: token,
        DORMOUSE_AGENT_NAME: name,
        DORMOUSE_AGENT_DRIVER: 'simulated',
        DORMOUSE_AGENT_TEMPLATES_MIB: '0',
        DORMOUSE_AGENT_STATE_DIR: join(this.folder, name),
        ...settings,
      },
      logFile: join(this.folder, `${name}.log`),
    })
    host.start()
    this.hosts.push(host)
  }

  #controlPlaneAt(port: number, logFile: string): Child {
    const { NODE_OPTIONS: more = '', ...settings } = this.#settings
    const env = {
      ...settings,
      PORT: String(port),
      NODE_OPTIONS: `${controlPlaneOptions(this.checkout)} ${more}`.trim(),
    }
    return new Child({ checkout: this.checkout, file: 'apps/control-plane/src/main.ts', env, logFile })
  }

  #standbyLog(at: number): string {
    return join(this.folder, `standby-${at}.log`)
  }

  /** How many hosts that replica holds a link to; none while it does not answer. */
  #linkedTo(baseUrl: string): Promise<number> {
    return createAdminClient({ baseUrl, operatorKey: this.#operatorKey, retries: 0 })
      .listHosts()
      .then(
        ({ hosts }) => hosts.filter((host) => host.linked).length,
        () => 0,
      )
  }

  #leads(): Promise<boolean> {
    return fetch(`${this.url}/readyz`).then(
      async (response) => ((await response.json()) as { leads?: boolean }).leads === true,
      () => false,
    )
  }
}

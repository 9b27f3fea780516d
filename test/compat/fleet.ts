// Control planes and simulated hosts of several releases, in processes of their own, on one database.
import { basename, join } from 'node:path'
import { type AdminClient, createAdminClient } from '@dormouse/client'
import { Child } from '../crash/child.ts'
import { freePort } from '../free-port.ts'
import { waitFor } from '../wait-for.ts'
import type { Release } from './releases.ts'

/** A setting that the release before does not know must not stop it. */
const settings = {
  DORMOUSE_NEXT_MOTTO: 'onward',
  DORMOUSE_HEARTBEAT_SECS: '0.5',
  DORMOUSE_DATABASE_POOL: '8',
  DORMOUSE_TIER_SMALL: '1,64,1',
  DORMOUSE_RATE_LIMIT_PER_SECOND: '100000',
}

interface Member {
  file: string
  name: string
  env: Record<string, string>
  process: Child
}

export class Fleet {
  readonly urls: string[] = []
  readonly #folder: string
  readonly #databaseUrl: string
  readonly #operatorKey: string
  readonly #replicas: Member[] = []
  readonly #hosts: Member[] = []

  constructor(given: { folder: string; databaseUrl: string; operatorKey: string }) {
    this.#folder = given.folder
    this.#databaseUrl = given.databaseUrl
    this.#operatorKey = given.operatorKey
  }

  get admin(): AdminClient {
    return this.#adminAt(this.urls[0]!)
  }

  async addReplica(release: Release): Promise<void> {
    const port = await freePort()
    this.urls.push(`http://127.0.0.1:${port}`)
    const env = { ...settings, DATABASE_URL: this.#databaseUrl, PORT: String(port) }
    this.#replicas.push(this.#start('control-plane/main.js', `replica-${port}`, env, release))
    await this.#settled()
  }

  async addHost(release: Release): Promise<void> {
    const name = `host-${this.#hosts.length + 1}`
    const env = {
      DORMOUSE_AGENT_CONTROL_PLANES: this.urls.join(),
      DORMOUSE_AGENT_ENROL_TOKEN: (await this.admin.inviteHost({ name })).token,
      DORMOUSE_AGENT_NAME: name,
      DORMOUSE_AGENT_DRIVER: 'simulated',
      DORMOUSE_AGENT_STATE_DIR: join(this.#folder, name),
      DORMOUSE_AGENT_METRICS_LISTEN: 'off',
    }
    this.#hosts.push(this.#start('agent/main.js', name, env, release))
    await this.#settled()
  }

  /** Stops each replica in its turn, and starts it with that release. Calls `between` when all is well again after each. */
  async changeReplicas(release: Release, between: () => Promise<void>): Promise<void> {
    for (let at = 0; at < this.#replicas.length; at++) await this.#change(this.#replicas, at, release, between)
    this.#expectVersions((await this.admin.listReplicas()).replicas, release)
  }

  /** The same for each host. */
  async changeHosts(release: Release, between: () => Promise<void>): Promise<void> {
    for (let at = 0; at < this.#hosts.length; at++) await this.#change(this.#hosts, at, release, between)
    this.#expectVersions((await this.admin.listHosts()).hosts, release)
  }

  async #change(members: Member[], at: number, release: Release, between: () => Promise<void>): Promise<void> {
    const { file, name, env, process } = members[at]!
    await process.kill('SIGTERM')
    members[at] = this.#start(file, name, env, release)
    await this.#settled()
    await between()
  }

  #expectVersions(found: { version: string | null }[], { version }: Release): void {
    const wrong = found.filter((one) => one.version !== version)
    if (wrong.length > 0) throw new Error(`not each runs ${version}: ${JSON.stringify(wrong)}`)
  }

  async stop(): Promise<void> {
    for (const { process } of [...this.#hosts, ...this.#replicas]) await process.kill('SIGTERM')
  }

  #start(file: string, name: string, env: Record<string, string>, { folder }: Release): Member {
    const logFile = join(this.#folder, `${name}-${basename(folder)}.log`)
    const process = new Child({ checkout: folder, file, env, logFile })
    process.start()
    return { file, name, env, process }
  }

  /** Every replica is ready, and has a link to every host. */
  async #settled(): Promise<void> {
    const linked = async (url: string) => {
      const { hosts } = await this.#adminAt(url).listHosts()
      return hosts.filter((host) => host.linked && host.state === 'active').length
    }
    await waitFor('every replica to be ready and linked to every host', async () => {
      for (const { process } of [...this.#replicas, ...this.#hosts]) process.expectAlive()
      const ready = this.urls.map(async (url) => {
        const { ok } = await fetch(`${url}/readyz`).catch(() => ({ ok: false }))
        return ok && (await linked(url)) === this.#hosts.length
      })
      return (await Promise.all(ready)).every(Boolean)
    })
  }

  #adminAt(baseUrl: string): AdminClient {
    return createAdminClient({ baseUrl, operatorKey: this.#operatorKey })
  }
}

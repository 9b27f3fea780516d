// Carries upgrades on: requests them of the agents, looks whether each host is healthy again, and stores what it finds.
// Everything that it needs is in the database, so that a later leader continues from there.
import { Refusal } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import { inLane } from '../db/lanes.ts'
import { isDatabaseUnavailable, type Pool } from '../db/pool.ts'
import { boundTo } from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { judge } from './judge.ts'
import type { UpgradedHost, UpgradeRow } from './store.ts'
import * as store from './store.ts'
import { compare } from './versions.ts'

export interface RunnerOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

type Found = Awaited<ReturnType<Hosts['list']>>[number]

const commandMs = 10_000

export class UpgradeRunner {
  readonly #options: RunnerOptions
  #looking: Promise<void> | undefined

  constructor(options: RunnerOptions) {
    this.#options = options
  }

  /** Looks at the upgrade in progress, if there is one. */
  look(): Promise<void> {
    this.#looking ??= inLane('work', () => this.#look())
      .catch((error: unknown) => this.#failed(error))
      .finally(() => {
        this.#looking = undefined
      })
    return this.#looking
  }

  /** Resolves when none is being looked at. */
  async idle(): Promise<void> {
    await this.#looking
  }

  #failed(error: unknown): void {
    const passing = error instanceof Refusal || isDatabaseUnavailable(error)
    this.#options.log[passing ? 'info' : 'error']({ err: error }, 'an upgrade was interrupted; it will go on')
  }

  async #look(): Promise<void> {
    const { pool, leadership } = this.#options
    for (;;) {
      const upgrade = leadership.term && (await store.live(pool))
      if (!upgrade || !(await this.#lookAt(upgrade))) return
    }
  }

  /** Whether hosts have begun, which are to be asked at once. */
  async #lookAt(upgrade: UpgradeRow): Promise<boolean> {
    const { pool } = this.#options
    const rows = await store.hostsOf(pool, upgrade.id)
    const fleet = new Map((await this.#options.hosts.list()).map((host) => [host.id, host]))
    const followed = await Promise.all(
      rows.map((row) => (row.status === 'working' ? this.#follow(upgrade, row, fleet.get(row.hostId)) : row)),
    )
    const judged = judge(upgrade, followed)
    const begun = await Promise.all(judged.hosts.map((row) => (row.status === 'working' ? this.#prepared(row) : row)))
    await this.#store(upgrade, rows, [...followed, ...begun], judged.outcome)
    return begun.some(({ status }) => status === 'working')
  }

  /** What has become of a host that is being upgraded. */
  async #follow(upgrade: UpgradeRow, row: UpgradedHost, host: Found | undefined): Promise<UpgradedHost> {
    const now = await this.#ask(upgrade, row).catch((error: unknown): UpgradedHost => {
      if (!(error instanceof Refusal)) throw error
      return { ...row, reason: error.extra.cause ?? error.detail }
    })
    if (now.status === 'failed') return now
    // Until it is installed, that is what is waited for.
    const why = now.version === null || now.reason ? now.reason : await this.#whyUnhealthy(now, host)
    if (why === null && now.version !== null) return { ...now, status: 'upgraded', reason: null }
    if (!row.late) return { ...now, reason: why }
    return { ...now, status: 'failed', reason: `it was not healthy again after ${upgrade.timeoutSecs} s: ${why}` }
  }

  async #ask({ id, version }: UpgradeRow, row: UpgradedHost): Promise<UpgradedHost> {
    const { links } = this.#options
    const asked = { upgradeId: id, version }
    const found = await links.command(row.hostId, 'agent.upgrade', asked, { timeoutMs: commandMs })
    if (found.state === 'failed') return { ...row, status: 'failed', reason: found.detail ?? 'the installation failed' }
    if (found.state === 'running') return { ...row, reason: 'it installs the package' }
    return { ...row, version: found.version, reason: null }
  }

  /** Why a host that has installed the version is not healthy yet; null if it is. */
  async #whyUnhealthy(
    { version, missingBefore, hostId }: UpgradedHost,
    host: Found | undefined,
  ): Promise<string | null> {
    if (host?.state !== 'active' || !host.linked) return 'it is not connected'
    if (host.ailment) return `it reports a problem: ${host.ailment}`
    if (compare(host.version, version) !== 0) return `its agent still runs ${host.version}, not ${version}`
    const missing = (await this.#missing(hostId)).filter((id) => !missingBefore.includes(id))
    return missing.length > 0 ? `it does not know the desktop ${missing[0]} as it did before` : null
  }

  /** Its turn has come. What it lacks already is not the upgrade's fault. */
  async #prepared(row: UpgradedHost): Promise<UpgradedHost> {
    return { ...row, missingBefore: await this.#missing(row.hostId).catch(() => []) }
  }

  /** The desktops of the host that it does not have as the database says: awake ones run, sleeping ones have their memory. */
  async #missing(hostId: string): Promise<string[]> {
    const { pool, links } = this.#options
    const { items } = await links.command(hostId, 'host.inventory', { known: [] }, { timeoutMs: commandMs })
    const known = new Map(items.map((item) => [item.desktopId, item]))
    return (await boundTo(pool, hostId)).flatMap(({ id, state }) => {
      const item = known.get(id)
      const isThere =
        (state !== 'awake' || (item && item.domain !== 'absent')) &&
        (state !== 'hibernated' || item?.memory === 'complete')
      return isThere ? [] : [id]
    })
  }

  async #store(
    upgrade: UpgradeRow,
    before: UpgradedHost[],
    now: UpgradedHost[],
    outcome: UpgradeRow['state'] | undefined,
  ): Promise<void> {
    const { leadership, log } = this.#options
    const old = new Map(before.map((row) => [row.hostId, JSON.stringify(row)]))
    // A host whose turn has come is there twice: the later one counts.
    const latest = [...new Map(now.map((row) => [row.hostId, row])).values()]
    const changed = latest.filter((row) => old.get(row.hostId) !== JSON.stringify(row))
    if (changed.length === 0 && !outcome) return
    await leadership.transaction(async (tx) => {
      await store.put(tx, upgrade.id, changed)
      if (outcome) await store.settle(tx, upgrade, outcome)
    })
    for (const { hostId, status, reason, version } of changed)
      if (status === 'upgraded' || status === 'failed')
        log.info({ host: hostId, upgrade: upgrade.id, status, version, reason }, 'the upgrade of a host has ended')
    if (outcome) log.info({ upgrade: upgrade.id, outcome }, 'an upgrade has ended')
  }
}

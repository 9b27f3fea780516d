// Upgrades of hosts: plans them, begins them, shows how far they have come, and cancels them. `runner.ts` carries them on.
import {
  type HostJson,
  newId,
  refuse,
  type UpgradeBody,
  type UpgradeJson,
  type UpgradePlanJson,
} from '@dormouse/contract'
import type { Note } from '../db/pool.ts'
import { liveReplicas, type ReplicaRow } from '../leadership/store.ts'
import { planOf, whyBlocked } from './plan.ts'
import { type RunnerOptions, UpgradeRunner } from './runner.ts'
import type { NewUpgrade, UpgradedHost, UpgradeRow } from './store.ts'
import * as store from './store.ts'
import { compare, workTogether } from './versions.ts'

const shown = 20

export class Upgrades {
  readonly runner: UpgradeRunner
  readonly #options: RunnerOptions

  constructor(options: RunnerOptions) {
    this.#options = options
    this.runner = new UpgradeRunner(options)
  }

  async replicas() {
    return (await liveReplicas(this.#options.pool)).map(replicaToJson)
  }

  async plan(version: string | null): Promise<UpgradePlanJson> {
    return planOf(await this.replicas(), await this.#hosts(), version)
  }

  /**
   * Begins to upgrade the hosts that run another release. Returns the upgrade in progress if it is the same; refuses with
   * `conflict` if it is another, or if the version does not work with what runs.
   */
  async start(body: UpgradeBody, note: Note): Promise<UpgradeJson> {
    const wanted: NewUpgrade = {
      id: newId(),
      version: body.version ?? null,
      batch: body.batch ?? 1,
      timeoutSecs: body.timeout_secs ?? 600,
    }
    await this.#requireNeighbours(wanted.version)
    const hosts = (await this.#hosts()).map((host) => waiting(host, wanted.version))
    const id = await this.#options.leadership.transaction(async (tx) => {
      const earlier = await store.live(tx)
      if (earlier && !isSame(earlier, wanted))
        refuse('conflict', `the upgrade ${earlier.id} is in progress with other parameters; cancel it first`)
      if (!earlier) {
        await store.insert(tx, wanted)
        await store.put(
          tx,
          wanted.id,
          hosts.filter((host) => host !== undefined),
        )
      }
      const { version, batch } = wanted
      await note(tx, earlier?.id ?? wanted.id, earlier ? null : { version, batch, timeout_secs: wanted.timeoutSecs })
      return earlier?.id ?? wanted.id
    })
    void this.runner.look()
    return this.show(id)
  }

  async show(id: string): Promise<UpgradeJson> {
    const { pool } = this.#options
    return toJson((await store.find(pool, id)) ?? unknown(), await store.hostsOf(pool, id))
  }

  /** The newest ones, the latest first. */
  async list(): Promise<UpgradeJson[]> {
    const { pool } = this.#options
    const rows = await store.list(pool, shown)
    return Promise.all(rows.map(async (row) => toJson(row, await store.hostsOf(pool, row.id))))
  }

  /** No further host begins. Those that install the version go on. Idempotent. */
  async cancel(id: string, note: Note): Promise<UpgradeJson> {
    await this.#options.leadership.transaction(async (tx) => {
      const { version } = (await store.find(tx, id)) ?? unknown()
      await note(tx, id, (await store.cancel(tx, id)) ? { version } : null)
    })
    await this.runner.look()
    return this.show(id)
  }

  async #requireNeighbours(version: string | null): Promise<void> {
    if (version === null) return
    const far = (await this.replicas()).find((replica) => !workTogether(replica.version, version))
    if (far)
      refuse('conflict', `the replica ${far.url} runs ${far.version}, which does not work with agents of ${version}`)
  }

  async #hosts(): Promise<HostJson[]> {
    return (await this.#options.hosts.list()).filter(({ state }) => state !== 'removed')
  }
}

const unknown = (): never => refuse('not_found', 'there is no such upgrade; `dormouse admin upgrade list` shows them')

/** Undefined if it runs the version already. */
function waiting(host: HostJson, version: string | null): UpgradedHost | undefined {
  if (version !== null && compare(host.version, version) === 0) return undefined
  const reason = whyBlocked(host)
  return {
    hostId: host.id,
    hostName: host.name,
    status: reason ? 'skipped' : 'waiting',
    fromVersion: host.version,
    version: null,
    reason,
    missingBefore: [],
    late: false,
  }
}

const isSame = (one: NewUpgrade, other: NewUpgrade): boolean =>
  (['version', 'batch', 'timeoutSecs'] as const).every((name) => one[name] === other[name])

const replicaToJson = ({ startedAt, seenAt, ...replica }: ReplicaRow) => ({
  ...replica,
  started_at: startedAt.toISOString(),
  seen_at: seenAt.toISOString(),
})

function toJson(upgrade: UpgradeRow, hosts: UpgradedHost[]): UpgradeJson {
  const count = (status: UpgradedHost['status']) => hosts.filter((host) => host.status === status).length
  return {
    id: upgrade.id,
    state: upgrade.state,
    version: upgrade.version,
    batch: upgrade.batch,
    timeout_secs: upgrade.timeoutSecs,
    created_at: upgrade.createdAt.toISOString(),
    settled_at: upgrade.settledAt?.toISOString() ?? null,
    progress: {
      total: hosts.length,
      waiting: count('waiting'),
      working: count('working'),
      upgraded: count('upgraded'),
      failed: count('failed'),
      skipped: count('skipped'),
    },
    hosts: hosts.map(({ hostId, hostName, status, fromVersion, version, reason }) => ({
      host_id: hostId,
      host_name: hostName,
      status,
      from_version: fromVersion,
      version,
      reason,
    })),
  }
}

// Removes a host for good: its key, its links, and the desktops with their only disk there. Knows no HTTP.
import { messageOf, type RemovalJson, refusals, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import type { Db, Note, Pool } from '../db/pool.ts'
import * as deferred from '../desktops/deferred.ts'
import { endGenerationsOf } from '../desktops/generations.ts'
import { failAll, unbindAll } from '../desktops/state-changes.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { NamedHost } from '../hosts/store.ts'
import * as hosts from '../hosts/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Engine } from '../operations/engine.ts'
import type { OperationRow } from '../operations/store.ts'
import * as operations from '../operations/store.ts'

export interface RemovalsOptions {
  pool: Pool
  leadership: Leadership
  engine: Engine
  links: Links
  channels: Channels
  log: Log
}

/** The desktops of a host, by what its removal does to them. */
interface Affected {
  /** Their only disk is lost. */
  lost: DesktopRow[]
  /** Never woken: they have no data yet, and may wake on another host. */
  unbound: DesktopRow[]
}

const lookEveryMs = 500
const tries = 5

/** Another desktop was bound to the host while the known ones were being locked: lock them all again. */
class AddedMeanwhile extends Error {}

export class Removals {
  readonly #options: RemovalsOptions
  #watching: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined

  constructor(options: RemovalsOptions) {
    this.#options = options
  }

  /** From now on closes this replica's links to removed hosts, whichever replica removed them. */
  watch(): void {
    this.#watching = setInterval(() => void this.look(), lookEveryMs).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#watching)
    await this.#looking
  }

  /** What removing this host would cost now. */
  async preview(nameOrId: string): Promise<RemovalJson> {
    const { pool } = this.#options
    const host = await find(pool, nameOrId)
    return toJson(host, (await affectedBy(pool, await desktops.boundTo(pool, host.id))).lost)
  }

  /**
   * Removes the host, unless more desktops than `yesLose` have their only disk there. Those become `failed`, and their
   * operations settle as failed. Idempotent.
   */
  async remove(nameOrId: string, yesLose: number, note: Note): Promise<RemovalJson> {
    const { leadership, engine, log } = this.#options
    for (let attempt = 1; ; attempt++) {
      try {
        const work = (tx: Db) => this.#remove(tx, nameOrId, yesLose, note)
        const { removal, superseded } = await leadership.transaction(work)
        for (const row of superseded) engine.superseded(row)
        await this.#disconnect(removal.host_id)
        if (!removal.removed_before)
          log.warn({ host: removal.host_id, hostName: removal.name, lost: removal.lost }, 'a host was removed')
        return removal
      } catch (error) {
        if (!(error instanceof AddedMeanwhile) || attempt >= tries) throw error
      }
    }
  }

  /** Locks the desktops first and the host last, in the same order as a placement. */
  async #remove(tx: Db, nameOrId: string, yesLose: number, note: Note) {
    const host = await find(tx, nameOrId)
    const bound = await desktops.lockBoundTo(tx, host.id)
    const { removedAt, before } = await hosts.remove(tx, host.id)
    if ((await desktops.boundTo(tx, host.id)).length > bound.length) throw new AddedMeanwhile()
    const { lost, unbound } = await affectedBy(tx, bound)
    if (lost.length > yesLose) refuse('would_lose', refusals.would_lose.detail({ host: host.name, lost: lost.length }))
    const superseded = await this.#settle(tx, host.id, { lost, unbound })
    await note(tx, host.id, before && lost.length === 0 ? null : { name: host.name, lost: lost.length })
    return { removal: { ...toJson({ ...host, removedAt }, lost), removed_before: before }, superseded }
  }

  async #settle(tx: Db, hostId: string, { lost, unbound }: Affected): Promise<OperationRow[]> {
    const cause = 'an operator removed the host'
    const failure = { code: 'host_removed', detail: messageOf('host_removed'), cause } as const
    const [lostIds, unboundIds] = [idsOf(lost), idsOf(unbound)]
    const ids = [...lostIds, ...unboundIds]
    const superseded = await operations.supersedeAll(tx, ids, failure)
    await endGenerationsOf(tx, ids, 'host removed')
    await failAll(tx, lostIds, 'host_removed')
    await unbindAll(tx, unboundIds)
    // The same lock order as in recovery of one desktop.
    await hosts.releaseHost(tx, hostId)
    await deferred.dropOf(tx, hostId)
    return superseded
  }

  /** Closes the links to removed hosts; one run at a time. */
  look(): Promise<void> {
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
    })
    return this.#looking
  }

  async #look(): Promise<void> {
    const { pool, links, log } = this.#options
    const linked = links.hostIds()
    if (linked.length === 0) return
    try {
      for (const id of await hosts.removedAmong(pool, linked)) await this.#disconnect(id)
    } catch (err) {
      log.warn({ err }, 'links to removed hosts could not be checked; retrying')
    }
  }

  async #disconnect(hostId: string): Promise<void> {
    this.#options.channels.disconnect(hostId)
    await this.#options.links.disconnect(hostId, 'the host was removed')
  }
}

async function find(db: Db, nameOrId: string): Promise<NamedHost> {
  const [found, another] = await hosts.findNamed(db, nameOrId)
  if (another) refuse('conflict', `several hosts are called ${nameOrId}; name it by its id`)
  return found ?? hosts.unknown()
}

const idsOf = (rows: DesktopRow[]): string[] => rows.map(({ id }) => id)

async function affectedBy(db: Db, bound: DesktopRow[]): Promise<Affected> {
  const firstWakes = await operations.wakingFrom(db, idsOf(bound), 'created')
  // A destroy continues: it needs no host.
  const held = bound.filter(({ state }) => state !== 'destroying')
  const isNew = ({ id, state }: DesktopRow) => state === 'created' || firstWakes.has(id)
  return { lost: held.filter((row) => !isNew(row)), unbound: held.filter(isNew) }
}

const toJson = ({ id, name, removedAt }: NamedHost, lost: DesktopRow[]): RemovalJson => ({
  host_id: id,
  name,
  removed_at: removedAt?.toISOString() ?? null,
  lost: lost.length,
  desktops: lost.map((row) => ({ id: row.id, org_id: row.orgId })),
})

// Takes a host out for good: its key, its links, and the desktops that had their only disk there. Knows no HTTP.
import { messageOf, type RemovalJson, refusals, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import type { Note, Pool } from '../db/pool.ts'
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

/** Desktops of a host, by what its removal does to them. */
interface Concerned {
  /** Their only disk is lost. */
  lost: DesktopRow[]
  /** Never awake: what is lost is the image's, and another host has that. */
  unbound: DesktopRow[]
}

const lookEveryMs = 500
const tries = 5

/** A desktop was bound to the host while the others were locked: they are locked again, with it. */
class BoundMeanwhile extends Error {}

export class Removals {
  readonly #options: RemovalsOptions
  #watching: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined

  constructor(options: RemovalsOptions) {
    this.#options = options
  }

  /** Cuts, from now on, the links that this replica holds to hosts that are removed, whichever replica removed them. */
  watch(): void {
    this.#watching = setInterval(() => void this.look(), lookEveryMs).unref()
  }

  async close(): Promise<void> {
    clearInterval(this.#watching)
    await this.#looking
  }

  /** What the removal of this host would cost now. */
  async preview(nameOrId: string): Promise<RemovalJson> {
    const { pool } = this.#options
    const host = await find(pool, nameOrId)
    return toJson(host, (await concerned(pool, await desktops.boundTo(pool, host.id))).lost)
  }

  /**
   * Removes the host, unless more desktops than `yesLose` have their only disk there. They become `failed`, and what was
   * under way on them settles with that truth. Twice is the same as once.
   */
  async remove(nameOrId: string, yesLose: number, note: Note): Promise<RemovalJson> {
    const { leadership, engine, log } = this.#options
    for (let attempt = 1; ; attempt++) {
      try {
        const work = (tx: pg.PoolClient) => this.#remove(tx, nameOrId, yesLose, note)
        const { removal, overtaken } = await leadership.transaction(work)
        for (const row of overtaken) engine.overtaken(row)
        await this.#cut(removal.host_id)
        if (!removal.removed_before)
          log.warn({ host: removal.host_id, hostName: removal.name, lost: removal.lost }, 'a host was removed')
        return removal
      } catch (error) {
        if (!(error instanceof BoundMeanwhile) || attempt >= tries) throw error
      }
    }
  }

  /** Desktops first and the host last, as everybody who places a desktop locks them. */
  async #remove(tx: pg.PoolClient, nameOrId: string, yesLose: number, note: Note) {
    const host = await find(tx, nameOrId)
    const bound = await desktops.lockBoundTo(tx, host.id)
    const { removedAt, before } = await hosts.remove(tx, host.id)
    if ((await desktops.boundTo(tx, host.id)).length > bound.length) throw new BoundMeanwhile()
    const { lost, unbound } = await concerned(tx, bound)
    if (lost.length > yesLose) refuse('would_lose', refusals.would_lose.detail({ host: host.name, lost: lost.length }))
    const overtaken = await this.#settle(tx, host.id, { lost, unbound })
    await note(tx, host.id, before && lost.length === 0 ? null : { name: host.name, lost: lost.length })
    return { removal: { ...toJson({ ...host, removedAt }, lost), removed_before: before }, overtaken }
  }

  async #settle(tx: pg.PoolClient, hostId: string, { lost, unbound }: Concerned): Promise<OperationRow[]> {
    const cause = 'an operator removed the host'
    const failure = { code: 'host_removed', detail: messageOf('host_removed'), cause } as const
    const [lostIds, unboundIds] = [idsOf(lost), idsOf(unbound)]
    const ids = [...lostIds, ...unboundIds]
    const overtaken = await operations.supersedeAll(tx, ids, failure)
    await endGenerationsOf(tx, ids, 'host removed')
    await failAll(tx, lostIds, 'host_removed')
    await unbindAll(tx, unboundIds)
    // In the order in which care for one desktop takes them.
    await hosts.releaseHost(tx, hostId)
    await deferred.dropOf(tx, hostId)
    return overtaken
  }

  /** One look at a time. */
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
      for (const id of await hosts.removedAmong(pool, linked)) await this.#cut(id)
    } catch (err) {
      log.warn({ err }, 'links could not be compared with the hosts that are removed; it is tried again')
    }
  }

  async #cut(hostId: string): Promise<void> {
    this.#options.channels.cut(hostId)
    await this.#options.links.cut(hostId, 'the host was removed')
  }
}

async function find(db: pg.PoolClient | Pool, nameOrId: string): Promise<NamedHost> {
  const [found, another] = await hosts.findNamed(db, nameOrId)
  if (another) refuse('conflict', `several hosts are called ${nameOrId}; name it by its id`)
  return found ?? hosts.unknown()
}

const idsOf = (rows: DesktopRow[]): string[] => rows.map(({ id }) => id)

async function concerned(db: pg.PoolClient | Pool, bound: DesktopRow[]): Promise<Concerned> {
  const firstWakes = await operations.wakingFrom(db, idsOf(bound), 'created')
  // A destroy goes on by itself: it needs no host.
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

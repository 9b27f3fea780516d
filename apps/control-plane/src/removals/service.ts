// Removes a host for good, with its key, its links, and the desktops whose only disk it has. Or declares it lost, which fails
// the same desktops and can be taken back. Knows no HTTP.
import { messageOf, newId, type RemovalJson, type ReturnedHostJson, refusals, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Channels } from '../agents/channels.ts'
import type { Links } from '../agents/links.ts'
import type { Db, Note, Pool } from '../db/pool.ts'
import * as deferred from '../desktops/deferred.ts'
import { endGenerationsOf } from '../desktops/generations.ts'
import { takeBackLater } from '../desktops/operations/carry.ts'
import { failAll, failForGood, type Loss, takeTurnOfLost, unbindAll } from '../desktops/state-changes.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import * as losses from '../hosts/loss-store.ts'
import { releaseHost, reserve } from '../hosts/reservations.ts'
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
  remove(nameOrId: string, yesLose: number, note: Note): Promise<RemovalJson> {
    return this.#end(removal, nameOrId, yesLose, note)
  }

  /**
   * The same for a host that is unreachable, which is then lost: should it link again, it gets orders to remove what was
   * destroyed meanwhile, and runs nothing until `takeBack`. Refuses if the host sent a heartbeat lately.
   */
  lose(nameOrId: string, yesLose: number, note: Note): Promise<RemovalJson> {
    return this.#end(loss, nameOrId, yesLose, note)
  }

  async #end(ending: Ending, nameOrId: string, yesLose: number, note: Note): Promise<RemovalJson> {
    const { leadership, engine, log } = this.#options
    for (let attempt = 1; ; attempt++) {
      try {
        const work = (tx: Db) => this.#endIn(tx, ending, nameOrId, yesLose, note)
        const { removal, superseded } = await leadership.transaction(work)
        for (const row of superseded) engine.superseded(row)
        await this.#disconnect(removal.host_id, ending.logged)
        if (!removal.removed_before)
          log.warn({ host: removal.host_id, hostName: removal.name, lost: removal.lost }, ending.logged)
        return removal
      } catch (error) {
        if (!(error instanceof AddedMeanwhile) || attempt >= tries) throw error
      }
    }
  }

  /** Locks the desktops first and the host last, in the same order as a placement. */
  async #endIn(tx: Db, ending: Ending, nameOrId: string, yesLose: number, note: Note) {
    const host = await find(tx, nameOrId)
    const bound = await desktops.lockBoundTo(tx, host.id)
    const { before, provedUntil, ...ended } = await ending.end(tx, host)
    if ((await desktops.boundTo(tx, host.id)).length > bound.length) throw new AddedMeanwhile()
    const { lost, unbound } = await affectedBy(tx, bound)
    if (lost.length > yesLose) refuse('would_lose', refusals.would_lose.detail({ host: host.name, lost: lost.length }))
    const superseded = await this.#settle(tx, host.id, { lost, unbound }, { code: ending.code, provedUntil })
    await ending.dropDeferred(tx, host.id)
    await note(tx, host.id, before && lost.length === 0 ? null : { name: host.name, lost: lost.length })
    return { removal: { ...toJson({ ...host, ...ended }, lost), removed_before: before }, superseded }
  }

  async #settle(tx: Db, hostId: string, { lost, unbound }: Affected, failed: Loss): Promise<OperationRow[]> {
    const { code } = failed
    const cause = code === 'host_lost' ? 'an operator declared the host lost' : 'an operator removed the host'
    const [lostIds, unboundIds] = [idsOf(lost), idsOf(unbound)]
    const ids = [...lostIds, ...unboundIds]
    const superseded = await operations.supersedeAll(tx, ids, { code, detail: messageOf(code), cause })
    for (const operation of superseded) await takeBackLater(tx, operation, hostId)
    await endGenerationsOf(tx, ids, code === 'host_lost' ? 'host lost' : 'host removed')
    await failAll(tx, lostIds, failed)
    await unbindAll(tx, unboundIds)
    // The same lock order as in recovery of one desktop.
    await releaseHost(tx, hostId, ids)
    return superseded
  }

  /**
   * Takes a lost host that is linked again back into service. Ends what is left there of the desktops that failed with it, as
   * after a failed wake: each becomes `hibernated` or `stopped` once the host has reported what it has. Idempotent.
   */
  async takeBack(nameOrId: string, note: Note): Promise<ReturnedHostJson> {
    const { leadership, links, log } = this.#options
    const returned = await leadership.transaction(async (tx) => {
      const host = await find(tx, nameOrId)
      if (host.removedAt) refuse('conflict', `${host.name} was removed for good; enrol it again`)
      const failed = host.lostAt ? await takeTurnOfLost(tx, host.id) : []
      if (host.lostAt && !(await losses.takeBack(tx, host.id)))
        refuse('conflict', `${host.name} sends no heartbeats; start its agent, then retry`)
      for (const row of failed) await this.#takeBackOne(tx, host.id, row)
      await note(tx, host.id, host.lostAt && { name: host.name, desktops: failed.length })
      return { host_id: host.id, name: host.name, desktops: failed.map(({ id, orgId }) => ({ id, org_id: orgId })) }
    })
    links.confine(returned.host_id, false)
    log.warn({ host: returned.host_id, desktops: returned.desktops.length }, 'a lost host was taken back into service')
    return returned
  }

  async #takeBackOne(tx: Db, hostId: string, row: DesktopRow): Promise<void> {
    const { id: desktopId, generation, turn, diskGiB } = row
    const held = { desktopId, image: row.imageVersion, vcpus: 0, memoryMiB: 0, diskGiB }
    await reserve(tx, hostId, held)
    const undo = { desktopId, hostId, command: 'desktop.ensureAsleep', generation, turn, operationId: newId() } as const
    await deferred.defer(tx, undo)
  }

  /** Closes the links to removed hosts, and confines lost ones; one run at a time. */
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
      for (const { id, removed } of await losses.goneAmong(pool, linked)) {
        if (removed) await this.#disconnect(id, removal.logged)
        else links.confine(id, true)
      }
    } catch (err) {
      log.warn({ err }, 'links to removed and lost hosts could not be checked; retrying')
    }
  }

  async #disconnect(hostId: string, why: string): Promise<void> {
    this.#options.channels.disconnect(hostId)
    await this.#options.links.disconnect(hostId, why)
  }
}

/** How a host ends. */
interface Ending {
  code: 'host_removed' | 'host_lost'
  logged: string
  /** Writes it. `before`: it had ended so already. */
  end(
    tx: Db,
    host: NamedHost,
  ): Promise<Partial<Pick<NamedHost, 'removedAt' | 'lostAt'>> & { before: boolean; provedUntil: Date | null }>
  /** Deletes the commands that it will never get. */
  dropDeferred(tx: Db, hostId: string): Promise<void>
}

const removal: Ending = {
  code: 'host_removed',
  logged: 'a host was removed',
  end: async (tx, { id }) => {
    await failForGood(tx, id)
    return { ...(await hosts.remove(tx, id)), provedUntil: null }
  },
  dropDeferred: deferred.dropOf,
}

const loss: Ending = {
  code: 'host_lost',
  logged: 'a host was declared lost',
  end: async (tx, { id, name, removedAt }) => {
    if (removedAt) refuse('conflict', `${name} was removed for good; nothing was changed`)
    const ended = await losses.lose(tx, id)
    if (!ended)
      return refuse(
        'conflict',
        `${name} sent a heartbeat in the last ${hosts.silentAfterMs / 1_000} s; retry when it is unreachable, or remove it for good`,
      )
    const { lostAt, before, heardAt } = ended
    // A host that never reported has proved nothing.
    return { lostAt, before, provedUntil: heardAt ?? new Date(0) }
  },
  dropDeferred: deferred.dropUndosOf,
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

const toJson = ({ id, name, removedAt, lostAt }: NamedHost, lost: DesktopRow[]): RemovalJson => ({
  host_id: id,
  name,
  removed_at: removedAt?.toISOString() ?? null,
  lost_at: lostAt?.toISOString() ?? null,
  lost: lost.length,
  desktops: lost.map((row) => ({ id: row.id, org_id: row.orgId })),
})

// Compares a host's inventory with the database and resolves each difference under the desktop's lock. A host is believed
// only about its own desktops. What it has of others is judged without a lock, and affects only that host.
import type { Observation, RejoinOrder } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type pg from 'pg'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import * as deferred from '../desktops/deferred.ts'
import { endGeneration } from '../desktops/generations.ts'
import { settle } from '../desktops/state-changes.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as operations from '../operations/store.ts'
import { Alarms, guarded } from './guarded.ts'
import { isDrastic, judge, judgeMissing, massLimit } from './rejoin.ts'

export interface ComparisonOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  log: Log
}

/** One look at a host: since when its inventory is true, by the database's clock, and where its alarms go. */
interface Sight {
  hostId: string
  asOf: Date
  alarms: Alarms
}

const commandTimeoutMs = 60_000

export class Comparison {
  readonly #options: ComparisonOptions

  constructor(options: ComparisonOptions) {
    this.#options = options
  }

  /** Compares the host's whole inventory. */
  async whole(term: Term, hostId: string): Promise<void> {
    const { links } = this.#options
    const sight = await this.#sight(hostId)
    const { items } = await links.command(hostId, 'host.inventory', {}, { timeoutMs: commandTimeoutMs })
    const latest = new Map(items.map((item) => [item.desktopId, item]))
    const orders = await this.#judgeAll(sight, [...latest.values()])
    await this.#settleMissing(sight, latest)
    sight.alarms.close()
    if (this.#isTooMuch(hostId, orders, latest.size) || orders.length === 0) return
    await links.command(hostId, 'host.rejoin', { epoch: term.epoch, orders }, { timeoutMs: commandTimeoutMs })
  }

  /** Observes desktops again of which the host reported a change, if they are its own. The reports may be outdated. */
  async hinted(hostId: string, hints: Observation[]): Promise<void> {
    const { pool, leadership, log } = this.#options
    const places = await desktops.placesOf(
      pool,
      hints.map(({ desktopId }) => desktopId),
    )
    for (const hint of hints) {
      const own = places.get(hint.desktopId) === hostId
      if (own && leadership.term) await guarded(log, () => this.#lookAt(hostId, hint))
    }
  }

  /** Corrects the desktop's state where the host has another. */
  async become(
    tx: pg.PoolClient,
    row: DesktopRow,
    state: DesktopRow['state'] | undefined,
    reason?: string | null,
  ): Promise<void> {
    if (!state || state === row.state) return
    this.#options.log.warn(
      { desktop: row.id, was: row.state, is: state, reason },
      'a desktop was found in another state; corrected',
    )
    await settle(tx, row.id, state, { by: 'correction', operationId: null })
    if (row.currentGenerationId) await endGeneration(tx, row.currentGenerationId, reason ?? 'found stopped')
    await this.#options.hosts.releaseMemory(tx, row.id)
  }

  async #sight(hostId: string): Promise<Sight> {
    const { pool, log } = this.#options
    return { hostId, asOf: await desktops.clock(pool), alarms: new Alarms(log, hostId) }
  }

  async #lookAt(hostId: string, { desktopId, reason }: Observation): Promise<void> {
    const { leadership, links } = this.#options
    const sight = await this.#sight(hostId)
    const item = await links.command(hostId, 'desktop.observe', { desktopId }, { timeoutMs: commandTimeoutMs })
    const told = { ...item, desktopId, reason: item.reason ?? reason }
    await leadership.transaction((tx) => this.#correct(tx, sight, desktopId, told))
  }

  async #judgeAll(sight: Sight, items: Observation[]): Promise<RejoinOrder[]> {
    const { pool, leadership, log } = this.#options
    const ids = items.map(({ desktopId }) => desktopId)
    const rows = new Map((await desktops.findMany(pool, ids)).map((row) => [row.id, row]))
    const busy = await operations.liveAmong(pool, ids)
    const orders: RejoinOrder[] = []
    for (const item of items) {
      // An item that fails must not stop the others.
      await guarded(log, async () => {
        const row = rows.get(item.desktopId)
        const order =
          row?.hostId === sight.hostId
            ? await leadership.transaction((tx) => this.#correct(tx, sight, item.desktopId, item))
            : this.#judgeForeign(sight, item, row, busy)
        if (!order) return
        orders.push({ desktopId: item.desktopId, seen: { generation: item.generation, turn: item.turn }, order })
      })
    }
    return orders
  }

  /** A desktop that is not the host's own: nothing changes here, and the order goes to that host only. */
  #judgeForeign(
    { hostId, asOf, alarms }: Sight,
    item: Observation,
    row: DesktopRow | undefined,
    busy: ReadonlySet<string>,
  ): RejoinOrder['order'] | undefined {
    if (row && (row.updatedAt >= asOf || busy.has(row.id))) return undefined
    const { order, alarm } = judge(hostId, item, row)
    if (alarm) alarms.raise({ item, state: row?.state }, alarm)
    return order
  }

  async #settleMissing(sight: Sight, present: ReadonlyMap<string, unknown>): Promise<void> {
    const { pool, leadership } = this.#options
    for (const row of await desktops.believedOn(pool, sight.hostId)) {
      if (present.has(row.id) || !judgeMissing(row)) continue
      await leadership.transaction((tx) => this.#correct(tx, sight, row.id, undefined))
    }
  }

  #isTooMuch(host: string, orders: RejoinOrder[], items: number): boolean {
    const drastic = orders.filter(({ order }) => isDrastic(order)).length
    if (drastic <= massLimit(items)) return false
    const facts = { host, drastic, items, alarm: true, alarmKind: 'mass_action' }
    this.#options.log.error(facts, 'too many desktops would be stopped or removed at once; nothing was done')
    return true
  }

  /**
   * Corrects the state under the desktop's lock and answers the order for the host. Does nothing if an operation is in
   * progress, an undo is deferred, or the desktop has changed since the inventory was taken.
   */
  async #correct(
    tx: pg.PoolClient,
    { hostId, asOf, alarms }: Sight,
    id: string,
    item: Observation | undefined,
  ): Promise<RejoinOrder['order'] | undefined> {
    const row = await desktops.lockAny(tx, id)
    // It may have changed while this waited for the lock.
    if (row?.hostId !== hostId || row.updatedAt >= asOf || (await operations.hasLive(tx, id))) return undefined
    if (await deferred.owesUndo(tx, id, hostId, row.turn)) return undefined
    if (!item) {
      await this.become(tx, row, judgeMissing(row))
      return undefined
    }
    const verdict = judge(hostId, item, row)
    if (verdict.alarm) alarms.raise({ item, state: row.state }, verdict.alarm)
    await this.become(tx, row, verdict.become, item.reason)
    return verdict.order
  }
}

// Compares a host's inventory with the database and resolves each difference under the desktop's lock. A host is believed
// only about its own desktops. What it has of others is judged without a lock, and affects only that host.
import { bucketOf, type Observation, type RejoinOrder } from '@dormouse/contract'
import { type Log, Semaphore } from '@dormouse/process'
import type { Links } from '../agents/links.ts'
import type { Found, StandingAlarms } from '../alarms/service.ts'
import type { Db, Pool } from '../db/pool.ts'
import { snapshot, transaction } from '../db/transactions.ts'
import * as deferred from '../desktops/deferred.ts'
import { endGeneration } from '../desktops/generations.ts'
import { settle } from '../desktops/state-changes.ts'
import type { DesktopRow } from '../desktops/store.ts'
import * as desktops from '../desktops/store.ts'
import type { Hosts } from '../hosts/service.ts'
import type { Leadership, Term } from '../leadership/leadership.ts'
import * as operations from '../operations/store.ts'
import { Compared } from './compared.ts'
import { guarded } from './guarded.ts'
import type { PausedGuests } from './paused-guests.ts'
import { isDrastic, judge, judgeMissing, massLimit } from './rejoin.ts'

export interface ComparisonOptions {
  pool: Pool
  leadership: Leadership
  links: Links
  hosts: Hosts
  paused: PausedGuests
  alarms: StandingAlarms
  log: Log
}

/** One look at a host: since when its inventory is true, by the database's clock, what is wrong there, and whose guests are paused. */
interface Sight {
  hostId: string
  asOf: Date
  wrong: Found[]
  paused: DesktopRow[]
}

interface View {
  rows: ReadonlyMap<string, DesktopRow>
  /** Desktops with an operation in progress. */
  busy: ReadonlySet<string>
  /** Desktops whose latest undo is deferred, with its turn. */
  owed: ReadonlyMap<string, number>
  /** Desktops that have moved away, or were to come, and whose part here a deferred command removes. */
  leaving: ReadonlySet<string>
  /** The digests of the rows, by bucket. */
  digests: readonly string[]
}

const commandTimeoutMs = 60_000
/** Hosts whose inventories are judged at once: after a power cut, many return together. */
const judgedAtOnce = 4

const push = (orders: RejoinOrder[], item: Observation, order: RejoinOrder['order'] | undefined) => {
  const { desktopId, generation, turn } = item
  if (order) orders.push({ desktopId, seen: { generation, turn }, order })
}

const wrongWith = (hostId: string, item: Observation, row: DesktopRow | undefined, what: string): Found => {
  const { desktopId } = item
  return { subject: `${desktopId} ${what}`, hostId, desktopId, what, facts: { item, state: row?.state } }
}

function tooManyOf(hostId: string, orders: RejoinOrder[], items: number): Found[] {
  const drastic = orders.filter(({ order }) => isDrastic(order)).length
  if (drastic <= massLimit(items)) return []
  const what = 'too many desktops would be stopped or removed at once; nothing was done'
  return [{ subject: hostId, hostId, desktopId: null, what, facts: { drastic, items } }]
}

export class Comparison {
  readonly #options: ComparisonOptions
  readonly #compared = new Compared()
  readonly #judging = new Semaphore(judgedAtOnce)

  constructor(options: ComparisonOptions) {
    this.#options = options
  }

  /** Compares what has changed of the host's inventory, or of the database's rows, since they last agreed. */
  async whole(term: Term, hostId: string): Promise<void> {
    const { links } = this.#options
    const sight = await this.#sight(hostId)
    const known = this.#compared.known(hostId, sight.digests)
    const told = await links.command(hostId, 'host.inventory', { known }, { timeoutMs: commandTimeoutMs })
    const buckets = [...known.keys()].filter((bucket) => told.digests[bucket] !== known[bucket])
    if (buckets.length === 0) return this.#alarm(hostId, [], [])
    const asked = new Set(buckets)
    const latest = new Map(
      told.items.filter(({ desktopId }) => asked.has(bucketOf(desktopId))).map((item) => [item.desktopId, item]),
    )
    const orders = await this.#judging.run(() => this.#judgeAll(sight, latest, buckets, told.digests))
    const tooMuch = tooManyOf(hostId, orders, Math.max(latest.size, sight.count))
    await this.#alarm(hostId, sight.wrong, tooMuch)
    await this.#hibernate(sight)
    if (tooMuch.length > 0 || orders.length === 0) return
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

  /** Corrects the desktop's state if the host has another. */
  async become(tx: Db, row: DesktopRow, state: DesktopRow['state'] | undefined, reason?: string | null): Promise<void> {
    if (!state || state === row.state) return
    this.#options.log.warn(
      { desktop: row.id, was: row.state, is: state, reason },
      'a desktop was found in another state; corrected',
    )
    // Nothing corrects a failed desktop, unless its lost host was taken back.
    await settle(tx, row.id, state, { by: row.state === 'failed' ? 'return' : 'correction', operationId: null })
    if (row.currentGenerationId) await endGeneration(tx, row.currentGenerationId, reason ?? 'found stopped')
    await this.#options.hosts.releaseMemory(tx, row.id)
  }

  async #sight(hostId: string): Promise<Sight & desktops.Believed> {
    return { hostId, ...(await desktops.believedInShort(this.#options.pool, hostId)), wrong: [], paused: [] }
  }

  /** All that is wrong with what the host has. */
  async #alarm(hostId: string, wrong: Found[], tooMuch: Found[]): Promise<void> {
    const { alarms, log } = this.#options
    await alarms.are('inventory', hostId, wrong, log)
    await alarms.are('mass_action', hostId, tooMuch, log)
  }

  async #lookAt(hostId: string, { desktopId, reason }: Observation): Promise<void> {
    const { leadership, links, alarms, log } = this.#options
    const sight = await this.#sight(hostId)
    const item = await links.command(hostId, 'desktop.observe', { desktopId }, { timeoutMs: commandTimeoutMs })
    const told = { ...item, desktopId, reason: item.reason ?? reason }
    await leadership.transaction((tx) => this.#correct(tx, sight, desktopId, told))
    for (const wrong of sight.wrong) await alarms.is('inventory', hostId, wrong, log)
    await this.#hibernate(sight)
  }

  async #hibernate({ paused }: Sight): Promise<void> {
    for (const row of paused) await guarded(this.#options.log, () => this.#options.paused.hibernate(row))
  }

  /** Judges on one snapshot. Only what differs there is judged again under the desktop's lock, which costs a transaction. */
  async #judgeAll(
    sight: Sight & desktops.Believed,
    items: ReadonlyMap<string, Observation>,
    buckets: number[],
    digests: readonly string[],
  ): Promise<RejoinOrder[]> {
    const view = await this.#view(sight.hostId, [...items.keys()], buckets)
    const differs = new Set<number>()
    const orders: RejoinOrder[] = []
    for (const item of items.values()) {
      const { agrees, order } = this.#judgeQuietly(sight, item, view)
      if (!agrees) differs.add(bucketOf(item.desktopId))
      // An item that fails must not stop the others.
      if (order === 'differs')
        await guarded(this.#options.log, async () =>
          push(orders, item, await this.#correctIn(sight, item.desktopId, item)),
        )
      else push(orders, item, order)
    }
    for (const row of view.rows.values()) {
      if (row.hostId !== sight.hostId || items.has(row.id) || !judgeMissing(row)) continue
      differs.add(bucketOf(row.id))
      await guarded(this.#options.log, () => this.#correctIn(sight, row.id, undefined))
    }
    // The other buckets agree as before.
    const rows = digests.map((_, bucket) => (buckets.includes(bucket) ? view : sight).digests[bucket])
    this.#compared.note(sight.hostId, digests, rows, differs)
    return orders
  }

  /** What the snapshot shows of an item: whether host and database agree, and the order; `differs` needs the lock. */
  #judgeQuietly(
    sight: Sight,
    item: Observation,
    view: View,
  ): { agrees: boolean; order: RejoinOrder['order'] | 'differs' | undefined } {
    const row = view.rows.get(item.desktopId)
    if (row?.hostId !== sight.hostId) return { agrees: false, order: this.#judgeForeign(sight, item, row, view) }
    const moves = row.updatedAt >= sight.asOf || view.busy.has(row.id) || view.owed.get(row.id) === row.turn
    if (moves) return { agrees: false, order: undefined }
    const { order, become, alarm, hibernate } = judge(sight.hostId, item, row)
    if (order !== 'keep' || become || alarm || hibernate) return { agrees: false, order: 'differs' }
    return { agrees: item.memory === 'none' || item.memory === 'complete', order }
  }

  /** All of one moment. */
  #view(hostId: string, ids: string[], buckets: number[]): Promise<View> {
    const read = async (tx: Db): Promise<View> => {
      const believed = await desktops.believedOn(tx, hostId, buckets)
      const rows = new Map([...believed, ...(await desktops.findMany(tx, ids))].map((row) => [row.id, row]))
      const busy = await operations.liveAmong(tx, [...rows.keys()])
      const { digests } = await desktops.believedInShort(tx, hostId)
      const owed = await deferred.owedUndos(tx, hostId)
      return { rows, busy, owed, leaving: await deferred.leavingFrom(tx, hostId), digests }
    }
    return transaction(this.#options.pool, read, { begin: snapshot })
  }

  #correctIn(sight: Sight, id: string, item: Observation | undefined): Promise<RejoinOrder['order'] | undefined> {
    return this.#options.leadership.transaction((tx) => this.#correct(tx, sight, id, item))
  }

  /** A desktop that is not the host's own: nothing changes here, and the order goes to that host only. */
  #judgeForeign(
    { hostId, asOf, wrong }: Sight,
    item: Observation,
    row: DesktopRow | undefined,
    { busy, leaving }: View,
  ): RejoinOrder['order'] | undefined {
    if (row && (row.updatedAt >= asOf || busy.has(row.id) || leaving.has(row.id))) return undefined
    const { order, alarm } = judge(hostId, item, row)
    if (alarm) wrong.push(wrongWith(hostId, item, row, alarm))
    return order
  }

  /**
   * Corrects the state under the desktop's lock and returns the order for the host. Does nothing if an operation is in
   * progress, an undo is deferred, or the desktop has changed since the inventory was taken.
   */
  async #correct(
    tx: Db,
    { hostId, asOf, wrong, paused }: Sight,
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
    if (verdict.alarm) wrong.push(wrongWith(hostId, item, row, verdict.alarm))
    if (verdict.hibernate) paused.push(row)
    await this.become(tx, row, verdict.become, item.reason)
    return verdict.order
  }
}

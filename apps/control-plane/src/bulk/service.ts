// Bulks: chooses the desktops, stores the plan, shows and cancels it. Begins nothing itself. Knows no HTTP.
import {
  type BulkAction,
  type BulkDesktopJson,
  type BulkJson,
  type bulkBody,
  bulkDesktopsMax,
  matches,
  newId,
  type Right,
  refuse,
  refuseField,
  refuseNotFound,
  selectorText,
} from '@dormouse/contract'
import type { z } from 'zod'
import type { LongReads, Pages } from '../db/long-reads.ts'
import { type Pool, retryWhileUnavailable } from '../db/pool.ts'
import type { LifecycleBudget } from '../desktops/lifecycle-budget.ts'
import { readBack } from '../desktops/read-back.ts'
import type { Replay } from '../desktops/service.ts'
import * as desktops from '../desktops/store.ts'
import type { Leadership } from '../leadership/leadership.ts'
import { requireRight } from '../principals/rights.ts'
import { admits, isWithin, scopeIn, storedScope } from '../principals/scope.ts'
import type { Customer } from '../principals/service.ts'
import { chosen } from './judge.ts'
import * as store from './store.ts'

export interface BulksOptions {
  pool: Pool
  leadership: Leadership
  longReads: LongReads
  lifecycle: Pick<LifecycleBudget, 'take'>
  /** Called when there is something to begin. */
  wake(): void
}

export type Wish = z.output<typeof bulkBody>

/** Plans of one organisation that may be in progress, and those that are kept: the newest, with a row for each desktop. */
const most = { live: 10, kept: 200 }
/** So many rows of a plan cost as much as a wake: both are kept for months. */
const rowsPerToken = 100
/** Responses with more desktops are streamed while they are read. */
const atOnceMax = 1_000

export class Bulks {
  readonly #options: BulksOptions

  constructor(options: BulksOptions) {
    this.#options = options
  }

  /** What the wish would do. Nothing is stored. */
  async plan(caller: Customer, wish: Wish): Promise<BulkJson> {
    const { found, rows } = await retryWhileUnavailable(() => this.#choose(caller, wish))
    const shown = rows.map((row) => {
      const desktop = found.get(row.desktopId)
      const { desktopId: desktop_id, status, code, detail } = row
      const now = { name: desktop?.name ?? null, state: desktop?.state ?? null }
      return rowToJson({ desktop_id, ...now, status, code, detail, operation_id: null })
    })
    return {
      ...{ id: null, action: wish.action, select: wish.select ? selectorText(wish.select) : null },
      ...{ state: 'planned', created_at: null, settled_at: null },
      progress: store.progress(rows.map(({ status }) => ({ status, count: 1 }))),
      desktops: shown,
    }
  }

  /** Stores the plan; what it does begins at once. Returns the earlier one if the key was used before. */
  async start(
    caller: Customer,
    wish: Wish,
    key: string | null,
    fingerprint: Buffer,
  ): Promise<{ id: string; replay: Replay }> {
    const { leadership, pool, lifecycle, wake } = this.#options
    const id = newId()
    const find = async () => (await store.find(pool, caller.orgId, id)) && true
    const earlier = async () => {
      const row = key === null ? undefined : await store.findByKey(pool, caller.orgId, key)
      if (row && !isShownTo(caller, row)) refuse('conflict', keyOfAnother)
      return (
        row && { id: row.id, replay: row.fingerprint?.equals(fingerprint) ? ('same' as const) : ('mismatch' as const) }
      )
    }
    const known = await retryWhileUnavailable(earlier)
    if (known) return known
    const { rows } = await retryWhileUnavailable(() => this.#choose(caller, wish))
    const over = lifecycle.take(caller.orgId, Math.ceil(rows.length / rowsPerToken))
    if (over) throw over
    const { selector: within, desktopId: withinDesktop } = storedScope(caller.scope)
    const bulk = {
      ...{ id, orgId: caller.orgId, action: wish.action, madeBy: caller.subject ?? 'unknown' },
      ...{ selector: wish.select ? selectorText(wish.select) : null, labels: wish.labels ?? null },
      ...{ within, withinDesktop },
      ...{ key, fingerprint: key === null ? null : fingerprint },
    }
    const isMade = await readBack(pool, key, find, () =>
      leadership.transaction((tx) => store.insert(tx, bulk, rows, most)),
    )
    if (!isMade) {
      return (
        (await retryWhileUnavailable(earlier)) ??
        refuse('conflict', `the organisation has ${most.live} bulk plans in progress; wait for one, or cancel one`)
      )
    }
    wake()
    return { id, replay: 'no' }
  }

  async show(caller: Customer, id: string): Promise<BulkJson> {
    const { pool } = this.#options
    const head = await this.#head(caller, id)
    const { rows } = await retryWhileUnavailable(() => pool.query<store.ShownRow>(store.rowsQuery(id, caller.scope)))
    return { ...head, desktops: rows.map(rowToJson) }
  }

  /** Undefined if its desktops fit into one response; otherwise all but them, and pages of them. */
  async showLong(
    caller: Customer,
    id: string,
    gone: AbortSignal,
  ): Promise<{ head: Omit<BulkJson, 'desktops'>; pages: Pages<store.ShownRow> } | undefined> {
    const head = await this.#head(caller, id)
    if (head.progress.total <= atOnceMax) return undefined
    return { head, pages: await this.#options.longReads.open(caller.orgId, store.rowsQuery(id, caller.scope), gone) }
  }

  /** Nothing more begins; what was begun goes on. */
  async cancel(caller: Customer, id: string): Promise<void> {
    const { leadership, wake } = this.#options
    await leadership.transaction(async (tx) => {
      const row = await store.find(tx, caller.orgId, id)
      if (!row || !isShownTo(caller, row)) refuseNotFound()
      requireRight(caller, rightOf[row.action])
      if (row.settledAt === null) await store.cancel(tx, id)
    })
    wake()
  }

  async #head(caller: Customer, id: string): Promise<Omit<BulkJson, 'desktops'>> {
    const { pool } = this.#options
    const row = await retryWhileUnavailable(() => store.find(pool, caller.orgId, id))
    if (!row || !isShownTo(caller, row)) refuseNotFound()
    const settled = row.cancelledAt === null ? ('done' as const) : ('cancelled' as const)
    return {
      ...{ id: row.id, action: row.action, select: row.selector },
      state: row.settledAt === null && row.cancelledAt === null ? 'running' : settled,
      created_at: row.createdAt.toISOString(),
      settled_at: row.settledAt?.toISOString() ?? null,
      progress: await retryWhileUnavailable(() => store.progressOf(pool, id)),
    }
  }

  async #choose(caller: Customer, wish: Wish) {
    const { action, select, ids } = wish
    const all = await this.#reached(caller, wish)
    if (all.length > bulkDesktopsMax)
      refuseField('select', `selects more than ${bulkDesktopsMax} desktops; narrow it, and do the rest by another`)
    const found = new Map(all.map((row) => [row.id, row]))
    const wanted = select ? [...found.keys()] : [...new Set(ids)].sort()
    return { found, rows: wanted.map((id) => chosen(action, id, found.get(id))) }
  }

  /** What the caller reaches of these. */
  async #reached({ orgId, scope }: Customer, { select, ids }: Wish): Promise<desktops.SelectedRow[]> {
    const { pool } = this.#options
    if (select && !scope?.desktopId)
      return desktops.selectedBy(pool, orgId, [...(scope?.selector ?? []), ...select], bulkDesktopsMax + 1)
    const rows = await desktops.findMany(pool, select ? [scope!.desktopId!] : ids!)
    const isSelected = ({ labels, state }: desktops.DesktopRow) =>
      !select || (state !== 'destroyed' && matches(select, labels))
    return rows.filter((row) => row.orgId === orgId && admits(scope, row) && isSelected(row))
  }
}

/** The right that each action needs of a credential. */
export const rightOf = {
  wake: 'power',
  hibernate: 'power',
  destroy: 'destroy',
  label: 'admin',
} as const satisfies Record<BulkAction, Right>

/** A plan exists for the credentials that reach all that it may have chosen. */
const isShownTo = ({ scope }: Customer, { within, withinDesktop }: store.BulkRow): boolean =>
  isWithin(scopeIn({ selector: within, desktopId: withinDesktop }), scope)

/** An Idempotency-Key belongs to the organisation. */
const keyOfAnother = 'the Idempotency-Key was used for a plan that does not exist for this credential; send another key'

export const rowToJson = ({ code, detail, ...row }: store.ShownRow): BulkDesktopJson => ({
  ...row,
  reason: code && { code, detail: detail ?? '' },
})

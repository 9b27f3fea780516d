// Desktops as customers see them, read directly as the contract's JSON: no hidden column is read, and no value is converted
// twice.
import {
  type DesktopJson,
  type DesktopState,
  defaultIdlePolicy,
  messageOf,
  type Protection,
  type RefusalCode,
  type Selector,
} from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { selected } from '../db/selection.ts'
import { timesAsText } from '../db/times-as-text.ts'
import type { DesktopRow } from './store.ts'

/** As `DesktopJson`, but with the failure's code. A replica of the previous release keeps the code on a destroy. */
const columns = `d.id, d.org_id, d.tier, d.disk_gib, d.next_tier, d.next_disk_gib, d.state, d.image_version, d.made_from as resolved_image_version, d.generation, d.current_generation_id, d.idle_timeout_secs,
  coalesce(d.idle_policy, '{${defaultIdlePolicy.join(',')}}') as idle_policy, d.wake_on,
  d.billing_mode, d.host_id, case when d.state = 'failed' then d.failure_code end as failure, d.name, d.labels,
  case when d.protected_at is null then 'none' when d.protected_kind = 'memory' and d.copied_turn = d.turn then 'memory' else 'disk' end as protection,
  d.protected_at,
  case when d.state <> 'destroyed' then d.destroy_at end as destroy_at, d.schedule, d.created_at, d.updated_at`

/** Completes what was read with `columns`. */
export function shown(row: DesktopJson): DesktopJson {
  if (row.failure !== null) row.failure = messageOf(row.failure as RefusalCode)
  return row
}

/** As `columns` has it. */
function protectionOf({ protectedAt, protectedKind, copiedTurn, turn }: DesktopRow): Protection {
  if (!protectedAt) return 'none'
  return protectedKind === 'memory' && copiedTurn === turn ? 'memory' : 'disk'
}

/** Converts a desktop that was read for other purposes. */
export const desktopToJson = (row: DesktopRow): DesktopJson => ({
  id: row.id,
  org_id: row.orgId,
  tier: row.tier,
  disk_gib: row.diskGiB,
  next_tier: row.nextTier,
  next_disk_gib: row.nextDiskGiB,
  state: row.state,
  image_version: row.imageVersion,
  resolved_image_version: row.madeFrom,
  generation: row.generation,
  current_generation_id: row.currentGenerationId,
  idle_timeout_secs: row.idleTimeoutSecs,
  idle_policy: row.idlePolicy ?? [...defaultIdlePolicy],
  wake_on: row.wakeOn,
  billing_mode: row.billingMode,
  host_id: row.hostId,
  failure: row.state === 'failed' && row.failureCode ? messageOf(row.failureCode) : null,
  name: row.name,
  labels: row.labels,
  destroy_at: (row.state !== 'destroyed' && row.destroyAt?.toISOString()) || null,
  schedule: row.schedule,
  protection: protectionOf(row),
  protected_at: row.protectedAt?.toISOString() ?? null,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
})

export interface DesktopKey {
  orgId: string
  id: string
}

/**
 * The desktops with these keys, in their order; undefined if a desktop does not exist or belongs to another organisation. The
 * limit makes the planner look up each key in the index, whatever its statistics of the table are.
 */
export async function findShown(db: Db, keys: readonly DesktopKey[]): Promise<(DesktopJson | undefined)[]> {
  const { rows } = await db.query<DesktopJson & { at?: number }>({
    name: 'desktops-find-shown',
    text: `select wanted.at, found.* from unnest($1::uuid[], $2::uuid[]) with ordinality as wanted (org_id, id, at),
             lateral (select ${columns} from desktops d where d.id = wanted.id and d.org_id = wanted.org_id limit 1) found`,
    values: [keys.map(({ orgId }) => orgId), keys.map(({ id }) => id)],
    types: timesAsText,
  })
  const found: (DesktopJson | undefined)[] = keys.map(() => undefined)
  for (const { at, ...row } of rows) found[at! - 1] = shown(row)
  return found
}

export const listOrders = ['created_at', '-created_at', 'name'] as const
export type ListOrder = (typeof listOrders)[number]

/** A row of a list, behind which the next page begins: its name counts if the list is sorted by it. */
export interface ListPosition {
  id: string
  name: string | null
}

export interface ListParams {
  orgId: string
  /** Null: all that are not destroyed. */
  states: DesktopState[] | null
  /** Null: all. */
  selector: Selector | null
  /** Only this desktop. */
  only: string | null
  /** Only the desktop of this name. */
  name: string | null
  order: ListOrder
  after: ListPosition | null
  limit: number | null
}

export async function list(db: Db, params: ListParams): Promise<DesktopJson[]> {
  const { rows } = await db.query<DesktopJson>(listQuery(params))
  return rows.map(shown)
}

/** Without states it is another statement, so that each uses its own index and reads no destroyed desktops needlessly. */
export function listQuery({ orgId, states, selector, only, name, order, after, limit }: ListParams) {
  const values: unknown[] = [orgId, limit]
  const value = (given: unknown) => `$${values.push(given)}`
  const which = [
    'd.org_id = $1',
    states === null ? `d.state <> 'destroyed'` : `d.state = any(${value(states)})`,
    ...(only === null ? [] : [`d.id = ${value(only)}`]),
    ...(name === null ? [] : [`d.name = ${value(name)}`]),
    ...(after === null ? [] : [isBehind(order, after, value)]),
    ...(selector === null ? [] : [selected(selector, 'd.labels', value)]),
  ]
  // A selector makes a statement of its own, with a plan for its values.
  const prepared = [
    'desktops-list',
    order,
    states && 'state',
    only !== null && 'id',
    name !== null && 'name',
    after && 'after',
    after?.name !== null,
  ]
  return {
    ...(selector === null && { name: prepared.join(' ') }),
    text: `select ${columns} from desktops d where ${which.join(' and ')} order by ${orders[order]} limit $2`,
    values,
    types: timesAsText,
  }
}

const orders: Record<ListOrder, string> = {
  created_at: 'd.id',
  '-created_at': 'd.id desc',
  name: 'd.name nulls last, d.id',
}

function isBehind(order: ListOrder, { id, name }: ListPosition, value: (given: unknown) => string): string {
  if (order !== 'name') return `d.id ${order === 'created_at' ? '>' : '<'} ${value(id)}`
  if (name === null) return `(d.name is null and d.id > ${value(id)})`
  return `(d.name is null or (d.name, d.id) > (${value(name)}, ${value(id)}))`
}

interface AnyParams {
  /** Without it all that are not destroyed, or the one with `id`. */
  states?: DesktopState[] | null
  hostId?: string
  orgId?: string
  id?: string
  limit: number
}

/** For operators: desktops of every organisation, or some of them, oldest first. */
export async function listAny(db: Db, { states = null, hostId, orgId, id, limit }: AnyParams): Promise<DesktopJson[]> {
  const values: unknown[] = [limit]
  const inState = states === null ? `d.state <> 'destroyed'` : `d.state = any($${values.push(states)})`
  const which = [
    id === undefined ? inState : `d.id = $${values.push(id)}`,
    ...(hostId === undefined ? [] : [`d.host_id = $${values.push(hostId)}`]),
    ...(orgId === undefined ? [] : [`d.org_id = $${values.push(orgId)}`]),
  ]
  const { rows } = await db.query<DesktopJson>({
    text: `select ${columns} from desktops d where ${which.join(' and ')} order by d.id limit $1`,
    values,
    types: timesAsText,
  })
  return rows.map(shown)
}

// Desktops as customers see them, read directly as the contract's JSON: no hidden column is read, and no value is converted
// twice.
import { type DesktopJson, type DesktopState, defaultIdlePolicy, messageOf, type RefusalCode } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { timesAsText } from '../db/times-as-text.ts'
import type { DesktopRow } from './store.ts'

/** As `DesktopJson`, but with the failure's code. A replica of the previous release keeps the code on a destroy. */
const columns = `d.id, d.org_id, d.tier, d.state, d.image_version, d.made_from as resolved_image_version, d.generation, d.current_generation_id, d.idle_timeout_secs,
  coalesce(d.idle_policy, '{${defaultIdlePolicy.join(',')}}') as idle_policy,
  d.billing_mode, d.host_id, case when d.state = 'failed' then d.failure_code end as failure, d.created_at, d.updated_at`

/** Completes what was read with `columns`. */
export function shown(row: DesktopJson): DesktopJson {
  if (row.failure !== null) row.failure = messageOf(row.failure as RefusalCode)
  return row
}

/** Converts a desktop that was read for other purposes. */
export const desktopToJson = (row: DesktopRow): DesktopJson => ({
  id: row.id,
  org_id: row.orgId,
  tier: row.tier,
  state: row.state,
  image_version: row.imageVersion,
  resolved_image_version: row.madeFrom,
  generation: row.generation,
  current_generation_id: row.currentGenerationId,
  idle_timeout_secs: row.idleTimeoutSecs,
  idle_policy: row.idlePolicy ?? [...defaultIdlePolicy],
  billing_mode: row.billingMode,
  host_id: row.hostId,
  failure: row.state === 'failed' && row.failureCode ? messageOf(row.failureCode) : null,
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

export interface ListParams {
  orgId: string
  /** Null: all that are not destroyed. */
  states: DesktopState[] | null
  /** Newest first, older than this id. */
  before: string | null
  limit: number | null
}

export async function list(db: Db, params: ListParams): Promise<DesktopJson[]> {
  const name = params.states === null ? 'desktops-list-shown' : 'desktops-list-state-shown'
  const { rows } = await db.query<DesktopJson>({ name, ...listQuery(params) })
  return rows.map(shown)
}

/** There are two statements, so that each uses its own index and reads no destroyed desktops needlessly. */
export function listQuery({ orgId, states, before, limit }: ListParams) {
  const which = states === null ? `d.state <> 'destroyed'` : 'd.state = any($4)'
  return {
    text: `select ${columns} from desktops d where d.org_id = $1 and ($2::uuid is null or d.id < $2) and ${which}
           order by d.id desc limit $3`,
    values: states === null ? [orgId, before, limit] : [orgId, before, limit, states],
    types: timesAsText,
  }
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

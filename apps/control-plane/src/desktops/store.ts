// The table of desktops: all reads, and the writes that change no state (`state-changes.ts` has the others).
import {
  type ActivityClass,
  type BillingMode,
  type CopyKind,
  type DesktopSpec,
  type DesktopState,
  inventoryBuckets,
  type Labels,
  type RefusalCode,
  refuse,
  type ScheduleJson,
  type Selector,
  type Tier,
  type UseClass,
} from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { selected } from '../db/selection.ts'
import { admits, type Reach } from '../principals/scope.ts'
import type { QuotaRead } from './quota.ts'
import { inProgress } from './states.ts'

export interface DesktopRow {
  id: string
  orgId: string
  tier: Tier
  state: DesktopState
  imageVersion: string
  vcpus: number
  memoryMiB: number
  diskGiB: number
  /** Null if the next boot changes nothing. */
  nextTier: Tier | null
  nextVcpus: number | null
  nextMemoryMiB: number | null
  nextDiskGiB: number | null
  generation: number
  turn: number
  currentGenerationId: string | null
  idleTimeoutSecs: number
  /** Null: the default. */
  idlePolicy: ActivityClass[] | null
  /** The classes of calls that wake it. */
  wakeOn: UseClass[]
  billingMode: BillingMode
  hostId: string | null
  fingerprint: Buffer | null
  failureCode: RefusalCode | null
  /** The registered image of its disk, as name@version; null until one is chosen, and if the image is not registered. */
  madeFrom: string | null
  name: string | null
  labels: Labels
  destroyAt: Date | null
  schedule: ScheduleJson | null
  /** When its newest copy was taken, what that has, and the turn in which it slept then. */
  protectedAt: Date | null
  protectedKind: CopyKind | null
  copiedTurn: number | null
  createdAt: Date
  updatedAt: Date
}

export const columns = `id, org_id as "orgId", tier, state, image_version as "imageVersion", vcpus, memory_mib as "memoryMiB",
  disk_gib as "diskGiB", next_tier as "nextTier", next_vcpus as "nextVcpus", next_memory_mib as "nextMemoryMiB",
  next_disk_gib as "nextDiskGiB", generation, turn, current_generation_id as "currentGenerationId",
  idle_timeout_secs as "idleTimeoutSecs", idle_policy as "idlePolicy", wake_on as "wakeOn", billing_mode as "billingMode", host_id as "hostId", fingerprint,
  failure_code as "failureCode", made_from as "madeFrom", name, labels, destroy_at as "destroyAt", schedule, protected_at as "protectedAt",
  protected_kind as "protectedKind", copied_turn as "copiedTurn", created_at as "createdAt", updated_at as "updatedAt"`

export type NewDesktop = Pick<
  DesktopRow,
  | 'id'
  | 'orgId'
  | 'tier'
  | 'imageVersion'
  | 'vcpus'
  | 'memoryMiB'
  | 'diskGiB'
  | 'idleTimeoutSecs'
  | 'wakeOn'
  | 'billingMode'
  | 'name'
  | 'labels'
> & { key: string | null; fingerprint: Buffer | null; plan: NewPlan }

/** What a new desktop has planned. Times are in seconds from now, or null. */
export interface NewPlan {
  destroyAfterSecs: number | null
  destroySoonNoted: boolean
  schedule: ScheduleJson | null
  wakeAfterSecs: number | null
  hibernateAfterSecs: number | null
}

/** The SQL of a time by the database's clock; null if the value is. */
export const secsFromNow = (value: string): string => `clock_timestamp() + ${value}::float8 * interval '1 second'`

/**
 * Undefined if the organisation has already used the key, or has a desktop of that name. Waits for a concurrent request with the
 * same key or name.
 */
export async function insert(db: Db, desktop: NewDesktop): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-insert',
    text: `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs,
             billing_mode, idempotency_key, fingerprint, name, labels, destroy_at, destroy_soon_noted, schedule, wake_after,
             hibernate_after, due_at, wake_on)
           values ($1, $2, $3, 'created', $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, ${secsFromNow('$14')}, $15, $16,
             ${secsFromNow('$17')}, ${secsFromNow('$18')},
             case when $14::float8 is not null or $16::jsonb is not null then clock_timestamp() end, $19)
           on conflict do nothing
           returning ${columns}`,
    values: [
      desktop.id,
      desktop.orgId,
      desktop.tier,
      desktop.imageVersion,
      desktop.vcpus,
      desktop.memoryMiB,
      desktop.diskGiB,
      desktop.idleTimeoutSecs,
      desktop.billingMode,
      desktop.key,
      desktop.fingerprint,
      desktop.name,
      JSON.stringify(desktop.labels),
      desktop.plan.destroyAfterSecs,
      desktop.plan.destroySoonNoted,
      desktop.plan.schedule && JSON.stringify(desktop.plan.schedule),
      desktop.plan.wakeAfterSecs,
      desktop.plan.hibernateAfterSecs,
      desktop.wakeOn,
    ],
  })
  return rows[0]
}

/** The organisation's limit, its desktops counted up to that limit, and whether it has quotas by selector. Refuses if the organisation is suspended. */
export async function quotaOf(db: Db, orgId: string, byDefault: number): Promise<QuotaRead> {
  const { rows } = await db.query<QuotaRead & { suspended: boolean }>({
    name: 'desktops-quota',
    text: `select o.max as "limit", (
             select count(*)::int from (
               select 1 from desktops where org_id = $1 and state <> 'destroyed' limit o.max) counted) as desktops,
             exists (select from org_quotas where org_id = $1) as "hasQuotas", o.suspended
           from (select coalesce(max(max_desktops), $2::int) as max, count(suspended_at) > 0 as suspended
                 from organisations where id = $1) o`,
    values: [orgId, byDefault],
  })
  const { suspended, ...quota } = rows[0]!
  return suspended ? refuse('org_suspended') : quota
}

export async function findByKey(db: Db, orgId: string, key: string): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-by-key',
    text: `select ${columns} from desktops where org_id = $1 and idempotency_key = $2`,
    values: [orgId, key],
  })
  return rows[0]
}

/** The organisation's desktop of that name that is not destroyed. */
export async function findByName(db: Db, orgId: string, name: string): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-by-name',
    text: `select ${columns} from desktops where org_id = $1 and name = $2 and state <> 'destroyed'`,
    values: [orgId, name],
  })
  return rows[0]
}

export async function find(db: Db, reach: Reach, id: string): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-find',
    text: `select ${columns} from desktops where id = $2 and org_id = $1`,
    values: [reach.orgId, id],
  })
  return rows.find((row) => admits(reach.scope, row))
}

/** The desktop of an operation, as far as a scope looks at it. */
export async function findByOperation(
  db: Db,
  operationId: string,
): Promise<Pick<DesktopRow, 'id' | 'labels'> | undefined> {
  const { rows } = await db.query<Pick<DesktopRow, 'id' | 'labels'>>({
    name: 'desktops-by-operation',
    text: 'select d.id, d.labels from operations o join desktops d on d.id = o.desktop_id where o.id = $1',
    values: [operationId],
  })
  return rows[0]
}

/** Like `find`, and locks the row until the transaction ends. */
export async function lock(db: Db, reach: Reach, id: string): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-lock',
    text: `select ${columns} from desktops where id = $2 and org_id = $1 for update`,
    values: [reach.orgId, id],
  })
  return rows.find((row) => admits(reach.scope, row))
}

/** Like `lock`, for internal work on the desktops of any organisation. */
export async function lockAny(db: Db, id: string): Promise<DesktopRow | undefined> {
  const { rows } = await db.query<DesktopRow>({
    name: 'desktops-lock-any',
    text: `select ${columns} from desktops where id = $1 for update`,
    values: [id],
  })
  return rows[0]
}

/** Ids end at random: a desktop's bucket is the last digit of its id. */
const bucket = `right(id::text, 1)`

/** What a host should hold, for these buckets: every desktop bound to it that is not destroyed. */
export async function believedOn(db: Db, hostId: string, buckets: readonly number[]): Promise<DesktopRow[]> {
  const { rows } = await db.query<DesktopRow>(
    `select ${columns} from desktops where host_id = $1 and state <> 'destroyed' and ${bucket} = any($2)`,
    [hostId, buckets.map((number) => number.toString(inventoryBuckets))],
  )
  return rows
}

/** The same rows as digests. */
export interface Believed {
  /** One digest per bucket. It changes whenever the state or the turn of one of its desktops changes. */
  digests: string[]
  count: number
  /** When this was read, by the database's clock, which also writes `updated_at`. */
  asOf: Date
}

export async function believedInShort(db: Db, hostId: string): Promise<Believed> {
  const { rows } = await db.query<{ asOf: Date; bucket: string | null; digest: string; count: number }>({
    name: 'desktops-believed-in-short',
    text: `select at as "asOf", bucket, digest, count from (select clock_timestamp() as at) now left join (
             select ${bucket} as bucket, count(*)::int as count,
               md5(string_agg(concat_ws(' ', id, generation, turn, state), ',' order by id)) as digest
             from desktops where host_id = $1 and state <> 'destroyed' group by 1) believed on true`,
    values: [hostId],
  })
  const digests: string[] = []
  for (const row of rows) if (row.bucket !== null) digests[Number.parseInt(row.bucket, inventoryBuckets)] = row.digest
  return { digests, count: rows.reduce((sum, { count }) => sum + (count ?? 0), 0), asOf: rows[0]!.asOf }
}

const isThere = `state <> all('{destroyed,failed}')`

/** The desktops that removing a host affects: every desktop bound to it that is neither destroyed nor failed. */
export async function boundTo(db: Db, hostId: string): Promise<DesktopRow[]> {
  const { rows } = await db.query<DesktopRow>(
    `select ${columns} from desktops where host_id = $1 and state <> 'destroyed' and ${isThere} order by id`,
    [hostId],
  )
  return rows
}

/** Like `boundTo`, and locks the rows until the transaction ends. */
export async function lockBoundTo(db: Db, hostId: string): Promise<DesktopRow[]> {
  const { rows } = await db.query<DesktopRow>(
    `select ${columns} from desktops where host_id = $1 and state <> 'destroyed' and ${isThere} order by id for update`,
    [hostId],
  )
  return rows
}

export async function findMany(db: Db, ids: string[]): Promise<DesktopRow[]> {
  const { rows } = await db.query<DesktopRow>(`select ${columns} from desktops where id = any($1)`, [ids])
  return rows
}

/** What is read of each of thousands: their labels would not fit into memory. */
export type SelectedRow = Pick<DesktopRow, 'id' | 'orgId' | 'state' | 'name' | 'failureCode'>

/** The organisation's desktops whose labels match, but for destroyed ones. */
export async function selectedBy(db: Db, orgId: string, selector: Selector, limit: number): Promise<SelectedRow[]> {
  const values: unknown[] = [orgId, limit]
  const isSelected = selected(selector, 'd.labels', (given) => `$${values.push(given)}`)
  const { rows } = await db.query<SelectedRow>(
    `select id, org_id as "orgId", state, name, failure_code as "failureCode" from desktops d
     where d.org_id = $1 and d.state <> 'destroyed' and ${isSelected} order by d.id limit $2`,
    values,
  )
  return rows
}

/** A column of the table, and what it becomes. */
export interface Assignment {
  column: string
  value?: unknown
  /** The SQL of the new value, with `$` for `value`; by default the value itself. */
  as?: string
}

/** Sets these columns. The caller has locked the row. */
export async function assign(db: Db, id: string, assignments: readonly Assignment[]): Promise<DesktopRow> {
  const values: unknown[] = [id]
  const sets = assignments.map(({ column, as = '$', value }) =>
    as.includes('$') ? `${column} = ${as.replace('$', `$${values.push(value)}`)}` : `${column} = ${as}`,
  )
  const { rows } = await db.query<DesktopRow>(
    `update desktops set ${[...sets, 'updated_at = clock_timestamp()'].join(', ')} where id = $1 returning ${columns}`,
    values,
  )
  return rows[0]!
}

/** The host that holds the disk of each of these desktops that has one. */
export async function placesOf(db: Db, ids: string[]): Promise<Map<string, string>> {
  const { rows } = await db.query<{ id: string; hostId: string }>(
    `select id, host_id as "hostId" from desktops where id = any($1) and host_id is not null`,
    [ids],
  )
  return new Map(rows.map(({ id, hostId }) => [id, hostId]))
}

/** The desktops among these that have an operation in progress. */
export async function inTransition(db: Db, ids: string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>('select id from desktops where id = any($1) and state = any($2)', [
    ids,
    inProgress,
  ])
  return new Set(rows.map(({ id }) => id))
}

export interface Binding {
  hostId: string
  madeFrom: string | null
}

/** Binds the desktop to the host that will hold its disk, and to the image of that disk, before anything is created there. */
export async function bind(db: Db, id: string, { hostId, madeFrom }: Binding): Promise<void> {
  await db.query({
    name: 'desktops-bind',
    text: 'update desktops set host_id = $2, made_from = $3 where id = $1',
    values: [id, hostId, madeFrom],
  })
}

/** Unbinds a desktop that has nothing on any host: the next wake chooses again. */
export async function unbind(db: Db, id: string): Promise<void> {
  await db.query('update desktops set host_id = null, made_from = null where id = $1', [id])
}

export const specOf = (row: DesktopRow): DesktopSpec => ({
  vcpus: row.vcpus,
  memoryMiB: row.memoryMiB,
  diskGiB: row.diskGiB,
  imageVersion: row.madeFrom ?? row.imageVersion,
})

// The tables of bulks: one row for each plan, and one for each of its desktops.
import type { BulkAction, BulkDesktopJson, BulkJson, BulkStatus, RefusalCode } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { admittedBy, type Scope } from '../principals/scope.ts'

export interface BulkRow {
  id: string
  orgId: string
  action: BulkAction
  selector: string | null
  labels: Record<string, string | null> | null
  madeBy: string
  /** What that credential reaches; both null for all desktops. */
  within: string | null
  withinDesktop: string | null
  fingerprint: Buffer | null
  createdAt: Date
  cancelledAt: Date | null
  settledAt: Date | null
}

/** A desktop that was chosen, and what is known of it before anything begins. */
export interface Chosen {
  desktopId: string
  status: BulkStatus
  code: RefusalCode | null
  detail: string | null
}

const columns = `id, org_id as "orgId", action, selector, labels, made_by as "madeBy", within,
  within_desktop as "withinDesktop", fingerprint, created_at as "createdAt",
  cancelled_at as "cancelledAt", settled_at as "settledAt"`

export type NewBulk = Omit<BulkRow, 'createdAt' | 'cancelledAt' | 'settledAt'> & { key: string | null }

/**
 * Stores a plan, and forgets the oldest of those that have settled. False if the organisation has used the key before, or has as
 * many plans in progress as it may have.
 */
export async function insert(
  db: Db,
  bulk: NewBulk,
  chosen: readonly Chosen[],
  most: { live: number; kept: number },
): Promise<boolean> {
  // Two plans of one organisation are counted one after the other.
  await db.query('select 1 from organisations where id = $1 for no key update', [bulk.orgId])
  const { rowCount } = await db.query(
    `insert into bulks (id, org_id, action, selector, labels, made_by, idempotency_key, fingerprint,
       within, within_desktop)
     select $1, $2, $3, $4, $5, $6, $7, $8, $10, $11
     where (select count(*) from bulks where org_id = $2 and settled_at is null) < $9
     on conflict do nothing`,
    [
      ...[bulk.id, bulk.orgId, bulk.action, bulk.selector, bulk.labels && JSON.stringify(bulk.labels)],
      ...[bulk.madeBy, bulk.key, bulk.fingerprint, most.live, bulk.within, bulk.withinDesktop],
    ],
  )
  if (rowCount !== 1) return false
  await db.query(
    `insert into bulk_desktops (bulk_id, desktop_id, status, code, detail)
     select $1, * from unnest($2::uuid[], $3::text[], $4::text[], $5::text[])`,
    [
      ...[bulk.id, chosen.map(({ desktopId }) => desktopId), chosen.map(({ status }) => status)],
      ...[chosen.map(({ code }) => code), chosen.map(({ detail }) => detail)],
    ],
  )
  await db.query(
    `delete from bulks where settled_at is not null and id in
       (select id from bulks where org_id = $1 order by id desc offset $2)`,
    [bulk.orgId, most.kept],
  )
  return true
}

export async function find(db: Db, orgId: string, id: string): Promise<BulkRow | undefined> {
  const { rows } = await db.query<BulkRow>(`select ${columns} from bulks where org_id = $1 and id = $2`, [orgId, id])
  return rows[0]
}

export async function findByKey(db: Db, orgId: string, key: string): Promise<BulkRow | undefined> {
  const { rows } = await db.query<BulkRow>(`select ${columns} from bulks where org_id = $1 and idempotency_key = $2`, [
    orgId,
    key,
  ])
  return rows[0]
}

/** All that have not settled. */
export async function live(db: Db): Promise<BulkRow[]> {
  const { rows } = await db.query<BulkRow>({
    name: 'bulks-live',
    text: `select ${columns} from bulks where settled_at is null order by id`,
  })
  return rows
}

export interface OpenDesktop {
  desktopId: string
  operationId: string | null
}

/** Those that wait or are worked on; the latter first. */
export async function open(db: Db, bulkId: string, limit: number): Promise<OpenDesktop[]> {
  const { rows } = await db.query<OpenDesktop>({
    name: 'bulks-open',
    text: `select desktop_id as "desktopId", operation_id as "operationId" from bulk_desktops
           where bulk_id = $1 and status in ('waiting', 'working') order by (operation_id is null), desktop_id limit $2`,
    values: [bulkId, limit],
  })
  return rows
}

/** Notes the operation that was begun; false if the desktop no longer waits. */
export async function began(db: Db, bulkId: string, desktopId: string, operationId: string): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'bulks-began',
    text: `update bulk_desktops set status = 'working', operation_id = $3
           where bulk_id = $1 and desktop_id = $2 and status = 'waiting'`,
    values: [bulkId, desktopId, operationId],
  })
  return rowCount === 1
}

/** Notes how it ended; false if it had ended before. */
export async function ended(db: Db, bulkId: string, { desktopId, status, code, detail }: Chosen): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'bulks-ended',
    text: `update bulk_desktops set status = $3, code = $4, detail = $5
           where bulk_id = $1 and desktop_id = $2 and status in ('waiting', 'working')`,
    values: [bulkId, desktopId, status, code, detail],
  })
  return rowCount === 1
}

/** Nothing more begins. What was begun goes on. */
export async function cancel(db: Db, bulkId: string): Promise<void> {
  await db.query('update bulks set cancelled_at = coalesce(cancelled_at, clock_timestamp()) where id = $1', [bulkId])
  await db.query(`update bulk_desktops set status = 'cancelled' where bulk_id = $1 and status = 'waiting'`, [bulkId])
}

/** Settles it if no desktop waits or is worked on. */
export async function settle(db: Db, bulkId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update bulks set settled_at = clock_timestamp() where id = $1 and settled_at is null and not exists
       (select from bulk_desktops where bulk_id = $1 and status in ('waiting', 'working'))`,
    [bulkId],
  )
  return rowCount === 1
}

export async function progressOf(db: Db, bulkId: string): Promise<BulkJson['progress']> {
  const { rows } = await db.query<{ status: BulkStatus; count: number }>(
    'select status, count(*)::int as count from bulk_desktops where bulk_id = $1 group by status',
    [bulkId],
  )
  return progress(rows)
}

export function progress(rows: readonly { status: BulkStatus; count: number }[]): BulkJson['progress'] {
  const all = { total: 0, waiting: 0, working: 0, succeeded: 0, failed: 0, skipped: 0, cancelled: 0 }
  for (const { status, count } of rows) {
    all[status] += count
    all.total += count
  }
  return all
}

export type ShownRow = Omit<BulkDesktopJson, 'reason'> & { code: RefusalCode | null; detail: string | null }

/** Its desktops as a customer sees them: without name and state, where the desktop no longer exists for that credential. */
export function rowsQuery(bulkId: string, scope: Scope | null) {
  const values: unknown[] = [bulkId]
  const isReached = admittedBy(scope, 'd', (given) => `$${values.push(given)}`)
  return {
    text: `select b.desktop_id, d.name, d.state, b.status, b.code, b.detail, b.operation_id
           from bulk_desktops b join bulks of on of.id = b.bulk_id
           left join desktops d on d.id = b.desktop_id and d.org_id = of.org_id and ${isReached}
           where b.bulk_id = $1 order by b.desktop_id`,
    values,
  }
}

/** Deletes plans that settled long ago, a few at a time, since each may have thousands of rows; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from bulks where id in
       (select id from bulks where settled_at < now() - $1 * interval '1 day' order by id limit 10)`,
    [days],
  )
  return rowCount ?? 0
}

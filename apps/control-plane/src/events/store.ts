// The log of events as it is read. Rows are written by the database's triggers (`db/migrations`), in the transaction of the
// change that they describe.
import type { Labels, Selector } from '@dormouse/contract'
import type pg from 'pg'
import type { Db } from '../db/pool.ts'
import { selected } from '../db/selection.ts'
import type { Position } from './cursors.ts'

export interface EventRow {
  /** Its number in the log: the order of the commits of each row that is described. */
  seq: number
  at: Date
  /** Null: for operators only. */
  orgId: string | null
  desktopId: string | null
  hostId: string | null
  type: string
  data: Record<string, unknown>
  /** Those that its desktop had then; null if it had none, or if the event concerns no desktop. */
  labels: Labels | null
}

const columns = `seq, at, org_id as "orgId", desktop_id as "desktopId", host_id as "hostId", type, data, labels`

/**
 * Identifies the database and its history: another one after a restore of a dump (the numbers of the database and the table), of
 * a base backup, or after a failover (the timeline).
 */
const lineage = `left(md5(concat_ws(' ', (select system_identifier from pg_control_system()),
  left(pg_walfile_name(pg_current_wal_lsn()), 8), 'events'::regclass::oid,
  (select oid from pg_database where datname = current_database()))), 8)`

export interface Seen {
  events: EventRow[]
  lineage: string
  /** The lowest transaction id in progress, in the same snapshot. */
  xmin: number
}

/** The events after that number, oldest first. */
export async function see(db: Db, after: number, limit: number): Promise<Seen> {
  const { rows } = await db.query<EventRow & Omit<Seen, 'events'>>({
    name: 'events-see',
    text: `select pg_snapshot_xmin(pg_current_snapshot())::text::bigint as xmin, ${lineage} as lineage, next.*
           from (select 1) one
           left join lateral (select ${columns} from events where seq > $1 order by seq limit $2) next on true
           order by next.seq`,
    values: [after, limit],
  })
  // There is one row if there is no event.
  const { lineage: name, xmin } = rows[0]!
  return { lineage: name, xmin, events: rows.filter(({ seq }) => seq !== null).map(eventOf) }
}

/** A transaction id that is above that of each transaction that has one now. */
export async function takeTransactionId(db: Db): Promise<number> {
  const { rows } = await db.query<{ xid: number }>('select pg_current_xact_id()::text::bigint as xid')
  return rows[0]!.xid
}

/** How far the log is complete, as the leader noted it last. */
export async function settledBefore(db: Db): Promise<number> {
  const { rows } = await db.query<{ settled: number }>('select settled from event_log')
  return rows[0]!.settled
}

export async function noteSettled(db: Db, settled: number): Promise<void> {
  await db.query('update event_log set settled = $1 where settled < $1', [settled])
}

export interface EventQuery {
  limit: number
  /** Only the events of one organisation. By default those of all, and those for operators. */
  orgId?: string | undefined
  hostId?: string | undefined
  desktopId?: string | undefined
  types?: readonly string[] | undefined
  /** Only events of desktops whose labels, as they were then, match. */
  selector?: Selector | undefined
  /** SQL: which rows `d` of desktops exist for the reader now. By default all. `value` adds a parameter and returns its name. */
  reached?: ((value: (given: unknown) => string) => string) | undefined
}

export interface Page {
  events: EventRow[]
  lineage: string
  /** Everything up to here was looked at. */
  upTo: number
  /** Events up to here may be missing. */
  dropped: number
  /** The last number that was drawn in this database. */
  last: number
}

/** A rare type in a long log must not make one page read the whole of it. */
const mostScanned = 5_000

/**
 * Events in (after, settled], oldest first. A page may be short, or empty, before the end: `upTo` is the position that it has
 * reached.
 */
export async function page(db: Db, after: number, settled: number, query: EventQuery): Promise<Page> {
  const { orgId, hostId, desktopId, types, selector, reached, limit } = query
  const values: unknown[] = [after, settled]
  const value = (given: unknown) => `$${values.push(given)}`
  const filters = [
    ...(hostId === undefined ? [] : [`host_id = ${value(hostId)}`]),
    ...(desktopId === undefined ? [] : [`desktop_id = ${value(desktopId)}`]),
    ...(types === undefined ? [] : [`type = any(${value(types)})`]),
    ...(selector === undefined
      ? []
      : [`desktop_id is not null and ${selected(selector, `coalesce(labels, '{}')`, value)}`]),
    ...(reached === undefined ? [] : [`exists (select from desktops d where d.id = desktop_id and ${reached(value)})`]),
  ]
  const scan = filters.length > 0 ? Math.max(limit, mostScanned) : limit
  const config: pg.QueryConfig = {
    text: `with scanned as materialized (
             select ${columns}, host_id, desktop_id from events
             where seq > $1 and seq <= $2 ${orgId === undefined ? '' : `and org_id = ${value(orgId)}`}
             order by seq limit ${scan}),
           found as (
             select seq, at, "orgId", "desktopId", "hostId", type, data, labels from scanned
             ${filters.length > 0 ? `where ${filters.join(' and ')}` : ''} order by seq limit ${value(limit)})
           select ${lineage} as lineage, log.dropped, (select last_value from events_seq) as last,
             (select count(*) from scanned)::int as scanned, (select max(seq) from scanned) as "upTo", found.*
           from event_log log left join found on true order by found.seq`,
    values,
  }
  const { rows } = await db.query<EventRow & Omit<Page, 'events'> & { scanned: number }>(config)
  const { lineage: name, dropped, last, scanned, upTo } = rows[0]!
  const events = rows.filter(({ seq }) => seq !== null).map(eventOf)
  const whole = scanned < scan ? Math.max(settled, after) : upTo
  return { events, lineage: name, dropped, last, upTo: events.length === limit ? events.at(-1)!.seq : whole }
}

const eventOf = ({ seq, at, orgId, desktopId, hostId, type, data, labels }: EventRow): EventRow => ({
  ...{ seq, at, orgId, desktopId, hostId, type, data, labels },
})

/** The position from which the log is whole. */
export async function oldest(db: Db): Promise<Position> {
  const { rows } = await db.query<Position>(`select ${lineage} as lineage, dropped as seq from event_log`)
  return rows[0]!
}

// The table of the ledger: when each desktop was awake or hibernated, as far as its host has proved it. Knows neither
// operations nor reports.

import type { BillingMode, DesktopState, Selector, Tier } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Db } from '../db/pool.ts'
import { selected } from '../db/selection.ts'

export type UsageKind = 'awake' | 'hibernated'

export interface Cause {
  /** The operation that settles; null if a host reported the change. */
  operationId: string | null
  /** The host's success proves that the guest ran until now, as that of a save does. */
  livedUntilNow: boolean
}

const kindOf = (state: DesktopState): UsageKind | null => (state === 'awake' || state === 'hibernated' ? state : null)

/**
 * Updates the ledger to the state in which a desktop settles, in the same transaction and behind the statement that settles
 * it: closes the interval that ends, and opens the one that begins. An awake interval ends at its last proof of life, unless
 * the cause is a proof itself.
 */
export async function follow(db: Db, desktopId: string, state: DesktopState, cause: Cause): Promise<void> {
  const kind = kindOf(state)
  await together([close(db, desktopId, kind, cause), kind ? open(db, desktopId, kind, cause) : Promise.resolve()])
}

/**
 * The statement that settles the desktop may have been sent together with those of the ledger, before it was known whether
 * its state allows that. If not, its row is not of this transaction, and the ledger stays as it is.
 */
const justSettled = (desktop: string) => `${desktop}.xmin = pg_current_xact_id()::xid`

/** A failed wake raises the generation of a hibernated desktop, so only awake intervals end with their generation. */
async function close(db: Db, desktopId: string, kind: UsageKind | null, cause: Cause): Promise<void> {
  await db.query({
    name: 'ledger-close-settled',
    text: `update usage_intervals u set closed_by = $3, period = tstzrange(lower(period), greatest(lower(period),
             case when kind = 'awake' and not $4 then alive_until else clock_timestamp() end))
           from desktops d where d.id = $1 and ${justSettled('d')} and u.desktop_id = d.id and upper_inf(period)
             and not coalesce(kind = $2 and (kind = 'hibernated' or u.generation = d.generation), false)`,
    values: [desktopId, kind, cause.operationId, cause.livedUntilNow],
  })
}

/**
 * The desktop goes on on another host: its open interval ends, and the same begins there at that very moment. The desktop's row
 * is locked.
 */
export async function moveTo(db: Db, desktopId: string, hostId: string, operationId: string): Promise<void> {
  await together([
    db.query(
      `update usage_intervals set closed_by = $2, period = tstzrange(lower(period), greatest(lower(period), clock_timestamp()))
       where desktop_id = $1 and upper_inf(period)`,
      [desktopId, operationId],
    ),
    db.query(
      `insert into usage_intervals
         (desktop_id, org_id, tier, billing_mode, kind, generation, host_id, opened_by, period, alive_until)
       select desktop_id, org_id, tier, billing_mode, kind, generation, $2, $3, tstzrange(upper(period), null), upper(period)
       from usage_intervals where desktop_id = $1 and closed_by = $3 and host_id is distinct from $2
       order by upper(period) desc limit 1`,
      [desktopId, hostId, operationId],
    ),
  ])
}

/** Billing of these desktops ends, at the latest at `latest`. Awake intervals end at their last proof of life. */
export async function closeAll(db: Db, desktopIds: string[], latest: Date | null): Promise<void> {
  await db.query(
    `update usage_intervals set period = tstzrange(lower(period), greatest(lower(period),
       least($2::timestamptz, case when kind = 'awake' then alive_until else clock_timestamp() end)))
     where desktop_id = any($1) and upper_inf(period)`,
    [desktopIds, latest],
  )
}

/** Begins after the previous interval, even if the database's clock was set back meanwhile. */
async function open(db: Db, desktopId: string, kind: UsageKind, cause: Cause): Promise<void> {
  await db.query({
    name: 'ledger-open-settled',
    text: `insert into usage_intervals
             (desktop_id, org_id, tier, billing_mode, kind, generation, host_id, opened_by, period, alive_until)
           select d.id, org_id, tier, billing_mode, $2, generation, host_id, $3, tstzrange(at, null), at
           from desktops d,
             (select greatest(clock_timestamp(), max(upper(period))) as at, coalesce(bool_or(upper_inf(period)), false) as runs
              from usage_intervals where desktop_id = $1) latest
           where d.id = $1 and ${justSettled('d')} and not runs`,
    values: [desktopId, kind, cause.operationId],
  })
}

export interface Living {
  desktopId: string
  generation: number
}

/** What a host reports as running. */
export interface Proof {
  hostId: string
  running: Living[]
}

/** Stores hosts' proofs of life in one statement for all that they run. Only the billed generation counts. */
export async function prove(db: Db, proofs: Proof[]): Promise<void> {
  const all = proofs.flatMap(({ hostId, running }) => running.map((living) => ({ hostId, ...living })))
  if (all.length === 0) return
  await db.query({
    name: 'ledger-prove',
    text: `update usage_intervals u set alive_until = greatest(alive_until, clock_timestamp())
           from unnest($1::uuid[], $2::uuid[], $3::bigint[]) as alive (host_id, desktop_id, generation)
           where u.kind = 'awake' and upper_inf(u.period) and u.host_id = alive.host_id
             and u.desktop_id = alive.desktop_id and u.generation = alive.generation`,
    values: [
      all.map(({ hostId }) => hostId),
      all.map(({ desktopId }) => desktopId),
      all.map(({ generation }) => generation),
    ],
  })
}

/** The open awake intervals on these hosts. */
export async function awakeOn(db: Db, hostIds: string[]): Promise<(Living & { hostId: string })[]> {
  const { rows } = await db.query<Living & { hostId: string }>(
    `select desktop_id as "desktopId", generation, host_id as "hostId" from usage_intervals
     where host_id = any($1) and kind = 'awake' and upper_inf(period)`,
    [hostIds],
  )
  return rows
}

/** Whether the desktop has an open awake interval of that generation on that host. */
export async function isAwakeOn(
  db: Db,
  { desktopId, generation, hostId }: Living & { hostId: string },
): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from usage_intervals where desktop_id = $1 and generation = $2 and host_id = $3
       and kind = 'awake' and upper_inf(period)`,
    [desktopId, generation, hostId],
  )
  return rowCount !== 0
}

export interface AwakePeriod {
  /** In Unix seconds, as is the end. */
  start: number
  end: number
  hostId: string | null
}

/** When the desktop was awake between two times, oldest first; the latest ones if there are more than the limit. */
export async function awakePeriods(
  db: Db,
  { desktopId, start, end, limit }: { desktopId: string; start: number; end: number; limit: number },
): Promise<AwakePeriod[]> {
  const { rows } = await db.query<AwakePeriod>({
    name: 'ledger-awake-periods',
    text: `select extract(epoch from lower(period))::float8 as start,
             extract(epoch from coalesce(upper(period), clock_timestamp()))::float8 as end, host_id as "hostId"
           from usage_intervals
           where desktop_id = $1 and kind = 'awake' and period && tstzrange(to_timestamp($2), to_timestamp($3))
           order by lower(period) desc limit $4`,
    values: [desktopId, start, end, limit],
  })
  return rows.reverse()
}

export interface UsedMs {
  desktopId: string
  tier: Tier
  billingMode: BillingMode
  awakeMs: number
  hibernatedMs: number
}

const countedMs = (kind: UsageKind) =>
  `coalesce(round(sum(extract(epoch from ends - begins) * 1000) filter (where kind = '${kind}' and ends > begins)), 0)::bigint`

export interface UsageQuery {
  orgId: string
  /** In Unix seconds, as is the end. */
  start: number
  end: number
  /** Only desktops whose labels match now; null: all. */
  selector: Selector | null
  /** Only this desktop; null: all. */
  desktopId: string | null
  limit: number | null
}

/** The usage of an organisation's desktops between two times, including destroyed ones. */
export async function used(db: Db, query: UsageQuery): Promise<UsedMs[]> {
  return (await db.query<UsedMs>(usedQuery(query))).rows
}

export function usedQuery({ orgId, start, end, selector, desktopId, limit }: UsageQuery) {
  const values: unknown[] = [orgId, start, end, limit]
  const value = (given: unknown) => `$${values.push(given)}`
  const isSelected =
    selector && `exists (select from desktops d where d.id = desktop_id and ${selected(selector, 'd.labels', value)})`
  return {
    ...(selector === null && { name: desktopId === null ? 'ledger-used' : 'ledger-used-one' }),
    text: `select desktop_id as "desktopId", tier, billing_mode as "billingMode",
             ${countedMs('awake')} as "awakeMs", ${countedMs('hibernated')} as "hibernatedMs"
           from (select desktop_id, tier, billing_mode, kind, greatest(lower(period), to_timestamp($2)) as begins,
                   least(to_timestamp($3), case when not upper_inf(period) then upper(period)
                     when kind = 'awake' then alive_until else now() end) as ends
                 from usage_intervals
                 where org_id = $1 and period && tstzrange(to_timestamp($2), to_timestamp($3))
                   ${isSelected ? `and ${isSelected}` : ''}
                   ${desktopId === null ? '' : `and desktop_id = ${value(desktopId)}`}) counted
           group by desktop_id, tier, billing_mode order by desktop_id, tier, billing_mode limit $4`,
    values,
  }
}

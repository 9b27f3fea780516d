// How many deliveries an organisation may have: many at once, and a steady number after that. What is above it is not made, only
// counted, and one event says how many. Knows no event.
import type { Db } from '../db/pool.ts'

/** Enough for each state of ten thousand desktops, or for a day of a few deliveries each second. */
const budget = { atOnce: 10_000, perSecond: 5 } as const
const noteAfterSecs = 30

/** What is left for each organisation, locked until the transaction ends. */
export async function lock(db: Db, orgIds: readonly string[]): Promise<Map<string, number>> {
  const { rows } = await db.query<{ orgId: string; tokens: number }>({
    name: 'delivery-budgets-lock',
    text: `insert into delivery_budgets as b (org_id, tokens) select org_id, $2::float8 from unnest($1::uuid[]) org_id order by org_id
           on conflict (org_id) do update set counted_at = clock_timestamp(), tokens = least($2, b.tokens
             + greatest(0, extract(epoch from clock_timestamp() - b.counted_at)) * $3::float8)
           returning org_id as "orgId", floor(tokens)::float8 as tokens`,
    values: [orgIds, budget.atOnce, budget.perSecond],
  })
  return new Map(rows.map(({ orgId, tokens }) => [orgId, tokens]))
}

export async function spend(db: Db, orgId: string, count: number): Promise<void> {
  await db.query({
    name: 'delivery-budgets-spend',
    text: 'update delivery_budgets set tokens = tokens - $2 where org_id = $1',
    values: [orgId, count],
  })
}

/** Counts deliveries that were not made. */
export async function leaveOut(db: Db, webhookId: string, count: number): Promise<void> {
  await db.query(
    `insert into deliveries_left_out as l (webhook_id, count) values ($1, $2)
     on conflict (webhook_id) do update set count = l.count + excluded.count`,
    [webhookId, count],
  )
}

/** Logs an event for each webhook that got less than it should; returns how many. */
export async function noteLeftOut(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `with noted as (
       delete from deliveries_left_out where since < clock_timestamp() - interval '${noteAfterSecs} seconds' returning *)
     insert into events (org_id, type, data)
     select w.org_id, 'deliveries.left_out', jsonb_build_object('webhook_id', w.id, 'url', w.url, 'count', noted.count,
       'since', noted.since) from noted join webhooks w on w.id = noted.webhook_id where w.deleted_at is null`,
  )
  return rowCount ?? 0
}

export const tokensPerSecond = budget.perSecond

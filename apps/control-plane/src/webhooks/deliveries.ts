// The table of deliveries: what is sent to a webhook, when it is due, and how its attempts went.
import type { DeliveryError, DeliveryState } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import type { Outcome } from './requests.ts'

export interface Attempt {
  /** RFC 3339 */
  at: string
  status: number | null
  ms: number
  error: DeliveryError | null
}

export interface DeliveryRow {
  id: string
  webhookId: string
  eventId: string
  eventAt: Date
  type: string
  sequence: number | null
  state: DeliveryState
  attempts: Attempt[]
  nextAt: Date | null
  createdAt: Date
  settledAt: Date | null
}

const columns = `id, webhook_id as "webhookId", event_id as "eventId", event_at as "eventAt", type, sequence, state, attempts,
  next_at as "nextAt", created_at as "createdAt", settled_at as "settledAt"`

export interface NewDelivery {
  id: string
  webhookId: string
  eventId: string
  eventAt: string
  type: string
  sequence: number | null
  body: string
}

/** Queues them, due now. */
export async function insert(db: Db, deliveries: NewDelivery[]): Promise<void> {
  if (deliveries.length === 0) return
  await db.query({
    name: 'deliveries-insert',
    text: `insert into webhook_deliveries (id, webhook_id, event_id, event_at, type, sequence, body, next_at)
           select id, "webhookId", "eventId", "eventAt", type, sequence, body, clock_timestamp()
           from jsonb_to_recordset($1::jsonb) as made(id uuid, "webhookId" uuid, "eventId" text, "eventAt" timestamptz,
             type text, sequence bigint, body text)`,
    values: [JSON.stringify(deliveries)],
  })
}

/** What one attempt needs. */
export interface DueDelivery {
  id: string
  webhookId: string
  eventId: string
  body: string
  /** Attempts since it became due first. */
  tries: number
  /** Since it became due first, in milliseconds. */
  ageMs: number
  /** When the first of these attempts began. */
  firstTryAt: Date | null
  /** A test is tried once. */
  isTest: boolean
}

/** Those of the webhook that are due, the earliest first. */
export async function due(db: Db, webhookId: string, limit: number): Promise<DueDelivery[]> {
  const { rows } = await db.query<DueDelivery>({
    name: 'deliveries-due',
    text: `select id, webhook_id as "webhookId", event_id as "eventId", body, tries, sequence is null as "isTest",
             case when tries > 0 then (attempts->(-tries)->>'at')::timestamptz end as "firstTryAt",
             extract(epoch from clock_timestamp() - due_since)::float8 * 1000 as "ageMs"
           from webhook_deliveries where webhook_id = $1 and state = 'pending' and next_at <= clock_timestamp()
           order by next_at, sequence limit $2`,
    values: [webhookId, limit],
  })
  return rows
}

export interface Recorded {
  id: string
  at: string
  outcome: Outcome
  /** Null: it has settled. */
  pauseMs: number | null
}

const attemptsKept = 20

/** Records an attempt of each, where it is pending. */
export async function record(db: Db, attempts: Recorded[]): Promise<void> {
  await db.query({
    name: 'deliveries-record',
    text: `update webhook_deliveries d set tries = tries + 1,
             attempts = case when jsonb_array_length(attempts) < ${attemptsKept} then attempts else attempts - 0 end
               || jsonb_build_array(made.attempt),
             state = case when made.pause is not null then 'pending' when made.attempt->>'error' is null then 'succeeded'
               else 'failed' end,
             next_at = clock_timestamp() + made.pause * interval '1 millisecond',
             settled_at = case when made.pause is null then clock_timestamp() end
           from jsonb_to_recordset($1::jsonb) as made(id uuid, attempt jsonb, pause float8)
           where d.id = made.id and d.state = 'pending'`,
    values: [
      JSON.stringify(
        attempts.map(({ id, at, outcome: { status, ms, error }, pauseMs }) => ({
          id,
          attempt: { at, status, ms, error },
          pause: pauseMs,
        })),
      ),
    ],
  })
}

export interface DeliveryQuery {
  state: DeliveryState | null
  before: string | null
  limit: number
}

/** Newest first. */
export async function list(db: Db, webhookId: string, { state, before, limit }: DeliveryQuery): Promise<DeliveryRow[]> {
  const { rows } = await db.query<DeliveryRow>(
    `select ${columns} from webhook_deliveries where webhook_id = $1 and ($2::text is null or state = $2)
       and ($3::uuid is null or id < $3) order by id desc limit $4`,
    [webhookId, state, before, limit],
  )
  return rows
}

export async function find(db: Db, webhookId: string, id: string): Promise<DeliveryRow | undefined> {
  const { rows } = await db.query<DeliveryRow>(
    `select ${columns} from webhook_deliveries where webhook_id = $1 and id = $2`,
    [webhookId, id],
  )
  return rows[0]
}

/** As when it became due first. */
const again = `state = 'pending', tries = 0, due_since = clock_timestamp(), next_at = clock_timestamp(), settled_at = null`

/** Makes it due now, with all its attempts before it. */
export async function repeat(db: Db, webhookId: string, id: string): Promise<DeliveryRow | undefined> {
  const { rows } = await db.query<DeliveryRow>(
    `update webhook_deliveries set ${again} where webhook_id = $1 and id = $2 returning ${columns}`,
    [webhookId, id],
  )
  return rows[0]
}

/** Makes settled ones due now, of events since that time, oldest first. Returns how many, and where the next would begin. */
export async function repeatSince(
  db: Db,
  webhookId: string,
  { since, state, limit }: { since: string; state: string | null; limit: number },
): Promise<{ count: number; more: Date | null }> {
  const { rows } = await db.query<{ count: number; more: Date | null }>(
    `with wanted as (
       select id, event_at, row_number() over (order by event_at, id) as place from webhook_deliveries
       where webhook_id = $1 and event_at >= $2 and state <> 'pending' and ($3::text is null or state = $3)
         and sequence is not null order by event_at, id limit $4::int + 1),
     repeated as (
       update webhook_deliveries d set ${again} from wanted where d.id = wanted.id and wanted.place <= $4 returning 1)
     select (select count(*) from repeated) as count, (select event_at from wanted where place > $4) as more`,
    [webhookId, since, state, limit],
  )
  return rows[0]!
}

/** Failing webhooks with more than so many deliveries that wait. */
export async function overloaded(db: Db, most: number): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from webhooks where enabled and deleted_at is null and failing_since is not null
       and (select count(*) from (select 1 from webhook_deliveries where webhook_id = webhooks.id and state = 'pending'
            limit $1 + 1) waiting) > $1`,
    [most],
  )
  return rows.map(({ id }) => id)
}

export interface Waiting {
  count: number
  /** By how much the one that is most overdue is late, in seconds: of webhooks that do not fail. */
  oldestSecs: number
}

/** The deliveries of enabled webhooks that wait. */
export async function waiting(db: Db): Promise<Waiting> {
  const { rows } = await db.query<Waiting>(
    `select coalesce(sum(of_one.count), 0)::float8 as count,
       greatest(0, coalesce(extract(epoch from clock_timestamp() - min(of_one.next) filter (where failing_since is null)), 0))::float8 as "oldestSecs"
     from webhooks, lateral (select count(*) as count, min(next_at) as next from webhook_deliveries
       where webhook_id = webhooks.id and state = 'pending') of_one where enabled and deleted_at is null`,
  )
  return rows[0]!
}

const pruneRows = 5_000

/** Deletes a batch of those that are older than so many days, or of a deleted webhook; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from webhook_deliveries where id in (
       (select id from webhook_deliveries where created_at < now() - $1 * interval '1 day' limit ${pruneRows})
       union all
       (select d.id from webhooks w join webhook_deliveries d on d.webhook_id = w.id where w.deleted_at is not null
        limit ${pruneRows}))`,
    [days],
  )
  return rowCount ?? 0
}

export interface NextDelivery {
  orgId: string
  /** Until it is due, in milliseconds; negative if it is late. */
  inMs: number
  /** Since the first failed attempt, in milliseconds; null if the last one succeeded. */
  failingForMs: number | null
}

/** The next delivery of an enabled webhook, which is locked until the transaction ends: nothing is queued meanwhile. */
export async function lockNext(db: Db, webhookId: string): Promise<NextDelivery | undefined> {
  const locked = await db.query<Omit<NextDelivery, 'inMs'>>({
    name: 'deliveries-lock-next',
    text: `select org_id as "orgId", extract(epoch from clock_timestamp() - failing_since)::float8 * 1000 as "failingForMs"
           from webhooks where id = $1 and enabled and deleted_at is null for no key update`,
    values: [webhookId],
  })
  const { rows } = await db.query<{ inMs: number | null }>({
    name: 'deliveries-next',
    text: `select extract(epoch from min(next_at) - clock_timestamp())::float8 * 1000 as "inMs"
           from webhook_deliveries where webhook_id = $1 and state = 'pending'`,
    values: [webhookId],
  })
  const inMs = rows[0]?.inMs
  return locked.rows[0] && typeof inMs === 'number' ? { ...locked.rows[0], inMs } : undefined
}

/** All enabled webhooks with deliveries that wait. */
export async function nextOfAll(db: Db): Promise<(NextDelivery & { webhookId: string })[]> {
  const { rows } = await db.query<NextDelivery & { webhookId: string }>(
    `select id as "webhookId", org_id as "orgId", next."inMs",
       extract(epoch from clock_timestamp() - failing_since)::float8 * 1000 as "failingForMs"
     from webhooks, lateral (
       select extract(epoch from next_at - clock_timestamp())::float8 * 1000 as "inMs" from webhook_deliveries
       where webhook_id = webhooks.id and state = 'pending' order by next_at limit 1) next
     where enabled and deleted_at is null`,
  )
  return rows
}

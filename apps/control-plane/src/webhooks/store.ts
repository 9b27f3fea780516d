// The table of webhooks, and the position up to which the log of events was turned into deliveries.
import type { WebhookDisabledReason, WebhookSignature } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import type { SigningKey } from './signing.ts'

export interface WebhookRow {
  id: string
  orgId: string
  url: string
  /** Null: all. */
  types: string[] | null
  /** Of the desktops whose events it gets. Null: all. */
  selector: string | null
  signature: WebhookSignature
  keys: SigningKey[]
  /** Only events above this number are sent. */
  afterSeq: number
  /** The number of its last delivery. */
  lastSequence: number
  enabled: boolean
  disabledReason: WebhookDisabledReason | null
  disabledAt: Date | null
  failingSince: Date | null
  createdAt: Date
  updatedAt: Date
}

/** Release 0.1.0 knows no selectors. It reads `types` alone, and sends nothing of what has a selector. */
const columns = `id, org_id as "orgId", url, case when selector is null then types else selected_types end as types, selector, signature, keys, after_seq as "afterSeq", last_sequence as "lastSequence",
  enabled, disabled_reason as "disabledReason", disabled_at as "disabledAt", failing_since as "failingSince",
  created_at as "createdAt", updated_at as "updatedAt"`

export type NewWebhook = Pick<
  WebhookRow,
  'id' | 'orgId' | 'url' | 'types' | 'selector' | 'signature' | 'keys' | 'afterSeq'
>

/** Undefined if the organisation has as many as it may have. */
export async function insert(db: Db, webhook: NewWebhook, most: number): Promise<WebhookRow | undefined> {
  // Two creations of one organisation are counted one after the other.
  await db.query('select 1 from organisations where id = $1 for no key update', [webhook.orgId])
  const { rows } = await db.query<WebhookRow>(
    `insert into webhooks (id, org_id, url, types, signature, keys, after_seq, selector, selected_types)
     select $1, $2, $3, case when $9::text is null then $4::text[] else '{}' end, $5, $6, $7, $9, $4
     where (select count(*) from webhooks where org_id = $2 and deleted_at is null) < $8
     returning ${columns}`,
    [
      ...[webhook.id, webhook.orgId, webhook.url, webhook.types, webhook.signature],
      ...[JSON.stringify(webhook.keys), webhook.afterSeq, most, webhook.selector],
    ],
  )
  return rows[0]
}

export async function list(db: Db, orgId: string): Promise<WebhookRow[]> {
  const { rows } = await db.query<WebhookRow>(
    `select ${columns} from webhooks where org_id = $1 and deleted_at is null order by id desc`,
    [orgId],
  )
  return rows
}

export async function find(db: Db, orgId: string, id: string): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>(
    `select ${columns} from webhooks where org_id = $1 and id = $2 and deleted_at is null`,
    [orgId, id],
  )
  return rows[0]
}

/** The same, locked until the transaction ends. */
export async function lock(db: Db, orgId: string, id: string): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>(
    `select ${columns} from webhooks where org_id = $1 and id = $2 and deleted_at is null for no key update`,
    [orgId, id],
  )
  return rows[0]
}

/** A webhook of any organisation; undefined if it is disabled or deleted. */
export async function findEnabled(db: Db, id: string): Promise<WebhookRow | undefined> {
  const { rows } = await db.query<WebhookRow>({
    name: 'webhooks-enabled',
    text: `select ${columns} from webhooks where id = $1 and enabled and deleted_at is null`,
    values: [id],
  })
  return rows[0]
}

/** Stores what a caller may change. */
export async function put(db: Db, webhook: WebhookRow): Promise<WebhookRow> {
  const { rows } = await db.query<WebhookRow>(
    `update webhooks set url = $2, types = case when $9::text is null then $3::text[] else '{}' end, selected_types = $3, keys = $4, after_seq = $5, enabled = $6, disabled_reason = $7,
       disabled_at = case when $6 then null else coalesce(disabled_at, clock_timestamp()) end,
       failing_since = $8, selector = $9, updated_at = clock_timestamp()
     where id = $1 returning ${columns}`,
    [
      ...[webhook.id, webhook.url, webhook.types, JSON.stringify(webhook.keys), webhook.afterSeq, webhook.enabled],
      ...[webhook.disabledReason, webhook.failingSince, webhook.selector],
    ],
  )
  return rows[0]!
}

/** Deletes it with its keys; false if there is none. Its deliveries are pruned later. */
export async function remove(db: Db, orgId: string, id: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update webhooks set deleted_at = clock_timestamp(), enabled = false, keys = '[]'
     where org_id = $1 and id = $2 and deleted_at is null`,
    [orgId, id],
  )
  return rowCount === 1
}

/** Disables those that are enabled, and logs an event for each; returns their ids. */
export async function disable(db: Db, ids: string[], reason: WebhookDisabledReason): Promise<string[]> {
  if (ids.length === 0) return []
  const { rows } = await db.query<{ id: string }>(
    `with disabled as (
       update webhooks set enabled = false, disabled_reason = $2, disabled_at = clock_timestamp(),
         updated_at = clock_timestamp()
       where id = any($1) and enabled and deleted_at is null returning id, org_id, url),
     logged as (
       insert into events (org_id, type, data)
       select org_id, 'webhook.disabled', jsonb_build_object('webhook_id', id, 'url', url, 'reason', $2::text) from disabled)
     select id from disabled`,
    [ids, reason],
  )
  return rows.map(({ id }) => id)
}

/** Those that get events of these organisations, locked until the transaction ends. */
export async function lockEnabledOf(db: Db, orgIds: string[]): Promise<WebhookRow[]> {
  const { rows } = await db.query<WebhookRow>({
    name: 'webhooks-of-orgs',
    text: `select ${columns} from webhooks where org_id = any($1) and enabled and deleted_at is null
           order by id for no key update`,
    values: [orgIds],
  })
  return rows
}

export async function countDeliveries(db: Db, id: string, lastSequence: number): Promise<void> {
  await db.query({
    name: 'webhooks-count',
    text: 'update webhooks set last_sequence = $2 where id = $1',
    values: [id, lastSequence],
  })
}

/** Locks these until the transaction ends. */
export async function lockMany(db: Db, ids: string[]): Promise<void> {
  await db.query('select 1 from webhooks where id = any($1) order by id for no key update', [ids])
}

/** Notes that these accept deliveries again. */
export async function noteHealthy(db: Db, ids: string[]): Promise<void> {
  if (ids.length > 0) await db.query('update webhooks set failing_since = null where id = any($1)', [ids])
}

/** Notes that an attempt has failed, by the time at which it began; answers since when all attempts have failed. */
export async function noteFailing(db: Db, id: string, at: Date): Promise<Date> {
  const { rows } = await db.query<{ failingSince: Date }>(
    `update webhooks set failing_since = coalesce(failing_since, $2) where id = $1 returning failing_since as "failingSince"`,
    [id, at],
  )
  return rows[0]?.failingSince ?? at
}

export interface ReadFrom {
  /** As it is stored. */
  seq: number
  /** No enabled webhook wants an event up to this one; null if none is enabled. */
  leastWanted: number | null
}

export async function readFrom(db: Db): Promise<ReadFrom> {
  const { rows } = await db.query<ReadFrom>({
    name: 'webhooks-read-from',
    text: `select seq, (select min(after_seq) from webhooks where enabled and deleted_at is null) as "leastWanted"
           from webhook_position`,
  })
  return rows[0]!
}

/** Moves the position; false if another reader has moved it. */
export async function advance(db: Db, from: number, to: number): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'webhooks-advance',
    text: 'update webhook_position set seq = $2 where seq = $1',
    values: [from, to],
  })
  return rowCount === 1
}

/** Forgets deleted webhooks that have no delivery any more. */
export async function pruneDeleted(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from webhooks w where deleted_at is not null
       and not exists (select 1 from webhook_deliveries where webhook_id = w.id)`,
  )
  return rowCount ?? 0
}

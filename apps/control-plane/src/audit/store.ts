// The audit log: operators' changes, and what customers do on screens and with file URLs. Entries are never changed, and are
// kept as long as the operator configures. Knows no module that writes to it.
import type { AuditEntryJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface AuditEntry {
  actor: string
  action: string
  subject: string
  details: Record<string, unknown>
}

/** Writes an entry in the transaction of the change. */
export async function record(db: Db, { actor, action, subject, details }: AuditEntry): Promise<void> {
  await db.query('insert into audit_log (actor, action, subject, details) values ($1, $2, $3, $4)', [
    actor,
    action,
    subject,
    details,
  ])
}

/**
 * Writes an entry about a customer's desktop. Above the organisation's budget the entry is only counted, and a later entry says
 * how many are missing. Call it after writing events: their budget is a row too, which stays locked until the transaction ends.
 */
export async function recordOfCustomer(db: Db, { actor, action, subject, details }: AuditEntry): Promise<void> {
  await db.query({
    name: 'audit-of-customer',
    text: `insert into audit_log (actor, action, subject, details) select $1, $2, id::text, $4 from desktops
           where id = $3::uuid and may_log(org_id, 'audit', ${budget.atOnce}, ${budget.perSecond})`,
    values: [actor, action, subject, details],
  })
}

/** The same about something else of the organisation, such as a key. */
export async function recordOfOrg(
  db: Db,
  orgId: string,
  { actor, action, subject, details }: AuditEntry,
): Promise<void> {
  await db.query(
    `insert into audit_log (actor, action, subject, details) select $1, $2, $3, $4
     where may_log($5::uuid, 'audit', ${budget.atOnce}, ${budget.perSecond})`,
    [actor, action, subject, details, orgId],
  )
}

/** Enough for one batch of input per second on each of a hundred screens, for a while. */
const budget = { atOnce: 10_000, perSecond: 10 } as const

/** Writes how many entries were left out, for each organisation. */
export async function noteLeftOut(db: Db): Promise<void> {
  await db.query(
    `insert into audit_log (actor, action, subject, details)
     select 'service', 'audit.left_out', org_id::text, jsonb_build_object('count', count, 'since', since)
     from take_left_out('audit')`,
  )
}

export interface AuditRow extends AuditEntry {
  id: number
  at: Date
  actorName: string | null
  subjectName: string | null
}

export interface AuditQuery {
  /** Newest first, older than this id; null for all. */
  before: number | null
  /** Only entries about this subject; null for all. */
  subject: string | null
  /** Only entries by this actor, who may be named by the id or the name of a key; null for all. */
  actor: string | null
  action: string | null
  /** From then on, and before then; null for all. */
  since: string | null
  until: string | null
  limit: number
}

const uuid = '[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}'

/** Filters that are not set are not in the statement, so that each uses its own index. */
export async function list(db: Db, query: AuditQuery): Promise<AuditRow[]> {
  const values: unknown[] = [query.limit]
  const which = (value: unknown, condition: (at: string) => string) =>
    value === null ? [] : [condition(`$${values.push(value)}`)]
  const actors = query.actor === null ? null : await actorsNamed(db, query.actor)
  const conditions = [
    ...which(query.before, (at) => `id < ${at}`),
    ...which(query.subject, (at) => `subject = ${at}`),
    ...which(actors, (at) => `actor = any(${at})`),
    ...which(query.action, (at) => `action = ${at}`),
    ...which(query.since, (at) => `at >= ${at}`),
    ...which(query.until, (at) => `at < ${at}`),
  ]
  const { rows } = await db.query<AuditRow>(
    `select entries.*, by.name as "actorName", coalesce(orgs.name, hosts.name, keys.name) as "subjectName"
     from (select id, at, actor, action, subject, details,
             case when actor ~ '^key:${uuid}$' then substr(actor, 5)::uuid end as by_id,
             case when subject ~ '^${uuid}$' then subject::uuid end as of_id
           from audit_log ${conditions.length > 0 ? `where ${conditions.join(' and ')}` : ''}
           order by id desc limit $1) entries
     left join keys by on by.id = by_id
     left join organisations orgs on orgs.id = of_id
     left join hosts on hosts.id = of_id
     left join keys on keys.id = of_id
     order by entries.id desc`,
    values,
  )
  return rows
}

async function actorsNamed(db: Db, actor: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>('select id from keys where name = $1 limit 1000', [actor])
  return [actor, `key:${actor}`, ...rows.map(({ id }) => `key:${id}`)]
}

export const auditToJson = (row: AuditRow): AuditEntryJson => ({
  id: row.id,
  at: row.at.toISOString(),
  actor: row.actor,
  actor_name: row.actorName,
  action: row.action,
  subject: row.subject,
  subject_name: row.subjectName,
  details: row.details,
})

/** Deletes the oldest entries; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from audit_log where id in (
       select id from audit_log where at < now() - $1 * interval '1 day' order by at limit 5000)`,
    [days],
  )
  return rowCount ?? 0
}

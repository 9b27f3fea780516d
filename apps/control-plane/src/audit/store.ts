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
}

export interface AuditQuery {
  /** Newest first, older than this id. */
  before: number | null
  /** Only entries about this subject; null for all. */
  subject: string | null
  limit: number
}

export async function list(db: Db, { before, subject, limit }: AuditQuery): Promise<AuditRow[]> {
  // Two statements, so that each uses its own index.
  const which = subject === null ? 'true' : 'subject = $3'
  const { rows } = await db.query<AuditRow>(
    `select id, at, actor, action, subject, details from audit_log
     where ($1::bigint is null or id < $1) and ${which} order by id desc limit $2`,
    subject === null ? [before, limit] : [before, limit, subject],
  )
  return rows
}

export const auditToJson = ({ at, ...row }: AuditRow): AuditEntryJson => ({ ...row, at: at.toISOString() })

/** Deletes the oldest entries; returns how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from audit_log where id in (
       select id from audit_log where at < now() - $1 * interval '1 day' order by at limit 5000)`,
    [days],
  )
  return rowCount ?? 0
}

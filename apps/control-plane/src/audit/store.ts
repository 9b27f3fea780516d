// The audit log: what was done to somebody else's, and by whom. Knows no room that writes to it; lines are never
// changed, and kept as long as an operator wishes.
import type { AuditEntryJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface AuditLine {
  actor: string
  action: string
  subject: string
  details: Record<string, unknown>
}

/** Writes a line in the transaction that does what it tells of. */
export async function record(db: Db, { actor, action, subject, details }: AuditLine): Promise<void> {
  await db.query('insert into audit_log (actor, action, subject, details) values ($1, $2, $3, $4)', [
    actor,
    action,
    subject,
    details,
  ])
}

export interface AuditRow extends AuditLine {
  id: number
  at: Date
}

export interface AuditWish {
  /** Newest first, older than this one. */
  before: number | null
  /** What the lines tell of; null for everything. */
  subject: string | null
  limit: number
}

export async function list(db: Db, { before, subject, limit }: AuditWish): Promise<AuditRow[]> {
  // Two statements, so that each finds its own index: a subject with few lines is not looked for among all.
  const which = subject === null ? 'true' : 'subject = $3'
  const { rows } = await db.query<AuditRow>(
    `select id, at, actor, action, subject, details from audit_log
     where ($1::bigint is null or id < $1) and ${which} order by id desc limit $2`,
    subject === null ? [before, limit] : [before, limit, subject],
  )
  return rows
}

export const auditToJson = ({ at, ...row }: AuditRow): AuditEntryJson => ({ ...row, at: at.toISOString() })

/** Forgets the oldest lines; answers how many. */
export async function prune(db: Db, days: number): Promise<number> {
  const { rowCount } = await db.query(
    `delete from audit_log where id in (
       select id from audit_log where at < now() - $1 * interval '1 day' order by at limit 5000)`,
    [days],
  )
  return rowCount ?? 0
}

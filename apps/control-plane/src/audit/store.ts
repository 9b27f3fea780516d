// The audit log: what was done to somebody else's, and by whom. Knows no room that writes to it; lines are never changed.
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

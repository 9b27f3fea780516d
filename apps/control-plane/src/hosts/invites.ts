// The table of invitations.
import type { ListedInviteJson } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export async function insertInvite(
  db: Db,
  invite: { id: string; hash: Buffer; name: string | null; validSecs: number },
): Promise<Date> {
  const { rows } = await db.query<{ expiresAt: Date }>(
    `insert into host_invites (id, hash, name, expires_at) values ($1, $2, $3, now() + $4 * interval '1 second')
     returning expires_at as "expiresAt"`,
    [invite.id, invite.hash, invite.name, invite.validSecs],
  )
  return rows[0]!.expiresAt
}

/** All that are kept, newest first. */
export async function listInvites(db: Db): Promise<ListedInviteJson[]> {
  const { rows } = await db.query<{
    id: string
    name: string | null
    createdAt: Date
    expiresAt: Date
    usedAt: Date | null
    hostId: string | null
  }>(
    `select id, name, created_at as "createdAt", expires_at as "expiresAt", used_at as "usedAt", host_id as "hostId"
     from host_invites order by id desc limit 10000`,
  )
  return rows.map((row) => ({
    id: row.id,
    name: row.name,
    created_at: row.createdAt.toISOString(),
    expires_at: row.expiresAt.toISOString(),
    used_at: row.usedAt?.toISOString() ?? null,
    host_id: row.hostId,
  }))
}

/** Ends an invitation that was not used; undefined if there is none. `hostId` of one that was. */
export async function revokeInvite(db: Db, id: string): Promise<{ hostId: string | null } | undefined> {
  const { rows } = await db.query<{ hostId: string | null }>(
    `update host_invites set expires_at = case when used_at is null then least(expires_at, now()) else expires_at end
     where id = $1 returning host_id as "hostId"`,
    [id],
  )
  return rows[0]
}

/** Uses up an invitation; false if it is unknown, used or expired. */
export async function spendInvite(db: Db, hash: Buffer, hostId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `update host_invites set used_at = now(), host_id = $2
     where hash = $1 and used_at is null and expires_at > now()`,
    [hash, hostId],
  )
  return rowCount === 1
}

/** Deletes used and expired invitations. A week is enough for a host that retries because its first answer was lost. */
export async function pruneInvites(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from host_invites where coalesce(used_at, expires_at) < now() - interval '7 days'`,
  )
  return rowCount ?? 0
}

/** The host that was enrolled with this invitation and this key: returns a retry whose first answer was lost. */
export async function findEnrolled(db: Db, hash: Buffer, publicKey: object): Promise<string | undefined> {
  const { rows } = await db.query<{ id: string }>(
    `select hosts.id from host_invites join hosts on hosts.id = host_invites.host_id
     where hash = $1 and public_key = $2::jsonb`,
    [hash, publicKey],
  )
  return rows[0]?.id
}

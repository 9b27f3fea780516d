// The leadership row and the list of replicas. Knows SQL, not when to take over.
import type pg from 'pg'
import { type Db, sessionNames } from '../db/pool.ts'

/** Any fixed number that nothing else uses as an advisory lock. */
const advisoryLock = 7_236_810

export interface LeadershipRow {
  epoch: number
  replicaId: string | null
  expired: boolean
}

/**
 * Waits until no other session holds the leader's lock. Ends with the session, so a dead leader frees it at once. It asks
 * anew every two seconds: a statement that waits holds a snapshot, which would keep vacuum from its work, and builds of
 * indexes from ending, for as long as the other leads.
 */
export async function awaitLock(session: pg.Client): Promise<void> {
  await session.query(`set statement_timeout = 0; set lock_timeout = '2s'`)
  while (!(await askForLock(session)));
  await session.query('set lock_timeout = 0')
}

/** A refusal that the block itself catches is no error in the server's log. */
async function askForLock(session: pg.Client): Promise<boolean> {
  const results = (await session.query(
    `do $$ begin
       perform pg_advisory_lock(${advisoryLock});
       perform set_config('dormouse.locked', 'yes', false);
     exception when lock_not_available then null;
     end $$;
     select coalesce(current_setting('dormouse.locked', true) = 'yes', false) as locked`,
  )) as unknown as [pg.QueryResult, pg.QueryResult<{ locked: boolean }>]
  return results[1].rows[0]!.locked
}

/** One backend of Postgres. A pid alone is soon another's, and on the server after a failover it is a stranger's. */
export interface Backend {
  pid: number
  /** In seconds since 1970, to the microsecond. */
  startedAt: string
}

export async function backendOf(session: pg.Client): Promise<Backend> {
  const { rows } = await session.query<Backend>(
    `select pid, extract(epoch from backend_start)::text as "startedAt" from pg_stat_activity where pid = pg_backend_pid()`,
  )
  return rows[0]!
}

/** Ends a session, also while it waits for the lock: Postgres hears no goodbye before that statement is over. */
export async function leave(db: Db, session: pg.Client, backend: Backend | undefined): Promise<void> {
  try {
    if (backend)
      await db.query(
        `select pg_terminate_backend(pid) from pg_stat_activity
          where pid = $1 and extract(epoch from backend_start)::text = $2 and application_name = $3`,
        [backend.pid, backend.startedAt, sessionNames.leadership],
      )
  } finally {
    await session.end()
  }
}

export async function read(db: Db): Promise<LeadershipRow> {
  const { rows } = await db.query(
    `select epoch, replica_id as "replicaId", expires_at < clock_timestamp() as expired from leadership`,
  )
  return rows[0] as LeadershipRow
}

/** Raises the epoch in the name of the replica. The row lock waits for every transaction of the old leader. */
export async function take(session: pg.Client, replicaId: string, leaseMs: number): Promise<number> {
  await session.query('begin')
  try {
    await session.query(`set local lock_timeout = '500ms'`)
    await session.query('select 1 from leadership for update')
    const { rows } = await session.query(
      `update leadership set epoch = epoch + 1, replica_id = $1,
              expires_at = clock_timestamp() + $2 * interval '1 millisecond' returning epoch`,
      [replicaId, leaseMs],
    )
    await session.query('commit')
    return (rows[0] as { epoch: number }).epoch
  } catch (error) {
    await session.query('rollback')
    throw error
  }
}

export interface OtherHolder {
  pid: number
  application: string
}

/**
 * Ends the sessions that keep the row from being taken: a frozen leader's open transactions and its advisory lock. Only
 * while the lease has run out, so that a leader that has just begun is left alone; only in this database, for locks are
 * listed for the whole server, where other installations have the same ones; and only sessions of our name. A session of
 * another program is somebody's work: it is told to the operator.
 */
export async function endBlockers(db: Db): Promise<{ ended: number; others: OtherHolder[] }> {
  const { rows } = await db.query<OtherHolder & { ended: boolean }>(
    `select pid, application, case when application = any($2) then pg_terminate_backend(pid) else false end as ended
     from (
       select distinct l.pid, a.application_name as application from pg_locks l join pg_stat_activity a on a.pid = l.pid
        where l.pid <> pg_backend_pid() and l.granted
          and l.database = (select oid from pg_database where datname = current_database())
          and ((l.locktype = 'advisory' and l.classid = 0 and l.objid = $1)
            or (l.relation = 'leadership'::regclass and l.mode in ('RowShareLock', 'RowExclusiveLock')))
     ) blockers where exists (select 1 from leadership where expires_at < clock_timestamp())`,
    [advisoryLock, [sessionNames.pool, sessionNames.leadership]],
  )
  const others = rows.filter(({ ended }) => !ended).map(({ pid, application }) => ({ pid, application }))
  return { ended: rows.length - others.length, others }
}

/** Whether the sessions of all replicas are ours to end: those of another role are not, without pg_signal_backend. */
export async function mayEndSessions(db: Db): Promise<boolean> {
  const { rows } = await db.query<{ may: boolean }>(
    `select coalesce(bool_and(pg_has_role(usesysid, 'usage') or pg_has_role('pg_signal_backend', 'usage')), true) as may
       from pg_stat_activity
      where datname = current_database() and application_name = any($1)`,
    [[sessionNames.pool, sessionNames.leadership]],
  )
  return rows[0]!.may
}

/** Puts the lease off; false where another epoch has begun. Does not conflict with the key share of a transaction. */
export async function renew(session: pg.Client, epoch: number, replicaId: string, leaseMs: number): Promise<boolean> {
  const renewal = {
    name: 'leadership-renew',
    text: `update leadership set expires_at = clock_timestamp() + $3 * interval '1 millisecond'
            where epoch = $1 and replica_id = $2`,
    values: [epoch, replicaId, leaseMs],
    // A server that is frozen answers nothing.
    query_timeout: leaseMs,
  }
  const { rowCount } = await session.query(renewal)
  return rowCount === 1
}

/** Gives the lease up so that nobody has to wait for it. */
export async function giveUp(db: Db, epoch: number, replicaId: string): Promise<void> {
  await db.query(`update leadership set expires_at = '-infinity' where epoch = $1 and replica_id = $2`, [
    epoch,
    replicaId,
  ])
}

/** Raises the epoch above one that a host has seen: the database was restored from an older copy. */
export async function raiseAbove(db: Db, seen: number): Promise<void> {
  await db.query('update leadership set epoch = greatest(epoch, $1)', [seen])
}

/** The statement with which every mutating transaction begins; no row means that this replica no longer leads. */
export const fenceStatement = (epoch: number, replicaId: string): string =>
  `begin isolation level read committed; select 1 from leadership where epoch = ${epoch} and replica_id = '${replicaId}'
     and expires_at > clock_timestamp() for key share`

/** Says that the replica lives and where it is reached. */
export async function announce(db: Db, replicaId: string, url: string): Promise<void> {
  await db.query(
    `insert into replicas (id, url) values ($1, $2) on conflict (id) do update set url = excluded.url, seen_at = now()`,
    [replicaId, url],
  )
}

/** Base URLs of the replicas heard of within the last 15 s. */
export async function liveReplicas(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ url: string }>(
    `select url from replicas where seen_at > now() - interval '15 seconds' order by started_at`,
  )
  return rows.map((row) => row.url)
}

export async function withdraw(db: Db, replicaId: string): Promise<void> {
  await db.query('delete from replicas where id = $1', [replicaId])
}

/** Forgets replicas that ended without a word; answers how many. */
export async function pruneReplicas(db: Db): Promise<number> {
  const { rowCount } = await db.query(`delete from replicas where seen_at < now() - interval '1 day'`)
  return rowCount ?? 0
}

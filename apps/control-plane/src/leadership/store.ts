// The leadership row and the table of replicas. Decides nothing.
import { release } from '@dormouse/process'
import type pg from 'pg'
import { ownRelease } from '../db/migrations.ts'
import { type Db, sessionNames } from '../db/pool.ts'

/** Any fixed number that nothing else uses as an advisory lock. */
const advisoryLock = 7_236_810

export interface LeadershipRow {
  epoch: number
  replicaId: string | null
  expired: boolean
  /** The schema is of a release with which this one may not change anything. */
  outdated: boolean
}

/** Whether this release may lead: fences, renewals and takeovers compare it. */
const isServed = `serves_from <= '{${ownRelease.join()}}'`

/**
 * Waits for the leader's advisory lock. The lock ends with its session, so a dead leader releases it at once. The statement
 * is repeated every two seconds: a waiting statement holds a snapshot, which would block vacuum and index builds for as
 * long as the other replica leads.
 */
export async function awaitLock(session: pg.Client): Promise<void> {
  await session.query(`set statement_timeout = 0; set lock_timeout = '2s'`)
  while (!(await askForLock(session)));
  await session.query('set lock_timeout = 0')
}

/** The block catches the lock timeout itself, so that the server's log shows no error. */
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

/** One backend of Postgres. A pid alone may be reused, and after a failover of Postgres it names a session of another program. */
export interface Backend {
  pid: number
  /** Unix time in seconds, with microseconds. */
  startedAt: string
}

export async function backendOf(session: pg.Client): Promise<Backend> {
  const { rows } = await session.query<Backend>(
    `select pid, extract(epoch from backend_start)::text as "startedAt" from pg_stat_activity where pid = pg_backend_pid()`,
  )
  return rows[0]!
}

/** Ends a session, also one that waits for the lock: Postgres reads no termination message before the statement ends. */
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
    `select epoch, replica_id as "replicaId", expires_at < clock_timestamp() as expired,
       not ${isServed} as outdated from leadership`,
  )
  return rows[0] as LeadershipRow
}

/**
 * Raises the epoch for this replica. The row lock waits for every transaction of the old leader. Undefined if this release may
 * not lead with the schema.
 */
export async function take(session: pg.Client, replicaId: string, leaseMs: number): Promise<number | undefined> {
  await session.query('begin')
  try {
    await session.query(`set local lock_timeout = '500ms'`)
    await session.query('select 1 from leadership for update')
    const { rows } = await session.query(
      `update leadership set epoch = epoch + 1, replica_id = $1,
              expires_at = clock_timestamp() + $2 * interval '1 millisecond' where ${isServed} returning epoch`,
      [replicaId, leaseMs],
    )
    await session.query('commit')
    return (rows[0] as { epoch: number } | undefined)?.epoch
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
 * Ends the sessions that block a take-over: the open transactions and the advisory lock of a frozen leader. Three limits:
 *
 * - only while the lease has expired, so that a leader that has just begun is left alone;
 * - only in this database: locks are listed for the whole server, and other installations use the same numbers;
 * - only sessions with our names. Sessions of other programs are returned in `others`, to be logged.
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

/** Whether our role may end the sessions of all replicas. Sessions of another role need pg_signal_backend. */
export async function mayEndSessions(db: Db): Promise<boolean> {
  const { rows } = await db.query<{ may: boolean }>(
    `select coalesce(bool_and(pg_has_role(usesysid, 'usage') or pg_has_role('pg_signal_backend', 'usage')), true) as may
       from pg_stat_activity
      where datname = current_database() and application_name = any($1)`,
    [[sessionNames.pool, sessionNames.leadership]],
  )
  return rows[0]!.may
}

/** Extends the lease; false if another epoch has begun, or the schema is of a release too new for this one. Does not conflict with the key share lock of a transaction. */
export async function renew(session: pg.Client, epoch: number, replicaId: string, leaseMs: number): Promise<boolean> {
  const renewal = {
    name: 'leadership-renew',
    text: `update leadership set expires_at = clock_timestamp() + $3 * interval '1 millisecond'
            where epoch = $1 and replica_id = $2 and ${isServed}`,
    values: [epoch, replicaId, leaseMs],
    // A frozen server does not answer.
    query_timeout: leaseMs,
  }
  const { rowCount } = await session.query(renewal)
  return rowCount === 1
}

/** Lets the lease expire, so that no other replica has to wait for it. */
export async function giveUp(db: Db, epoch: number, replicaId: string): Promise<void> {
  await db.query(`update leadership set expires_at = '-infinity' where epoch = $1 and replica_id = $2`, [
    epoch,
    replicaId,
  ])
}

/** Raises the epoch to at least one that a host has seen: the database was restored from an older copy. */
export async function raiseAbove(db: Db, seen: number): Promise<void> {
  await db.query('update leadership set epoch = greatest(epoch, $1)', [seen])
}

/**
 * The fence: every mutating transaction begins with it. It locks the row of leadership; if this replica no longer leads, there
 * is no row, and the division fails. So the statements behind it, which may have been sent already, fail too.
 */
export const fenceStatement = (epoch: number, replicaId: string) => ({
  name: 'leadership-fence',
  text: `select 1 / count(*) from (
           select 1 from leadership where epoch = $1 and replica_id = $2 and expires_at > clock_timestamp()
             and ${isServed}
           for key share) held`,
  values: [epoch, replicaId],
})

/** Notes that the replica is alive, and the URL at which it is reached. */
export async function announce(db: Db, replicaId: string, url: string): Promise<void> {
  await db.query(
    `insert into replicas (id, url, version, commit) values ($1, $2, $3, $4)
     on conflict (id) do update set url = excluded.url, seen_at = now()`,
    [replicaId, url, release.version, release.commit],
  )
}

export interface ReplicaRow {
  id: string
  url: string
  version: string
  commit: string
  leads: boolean
  startedAt: Date
  seenAt: Date
}

/** The replicas that announced themselves within the last 15 s, the oldest first. */
export async function liveReplicas(db: Db): Promise<ReplicaRow[]> {
  const { rows } = await db.query<ReplicaRow>(
    `select id, url, version, commit, started_at as "startedAt", seen_at as "seenAt",
       exists (select 1 from leadership where replica_id = id and expires_at > clock_timestamp()) as leads
     from replicas where seen_at > now() - interval '15 seconds' order by started_at`,
  )
  return rows
}

export async function withdraw(db: Db, replicaId: string): Promise<void> {
  await db.query('delete from replicas where id = $1', [replicaId])
}

/** Removes replicas that ended without withdrawing; returns how many. */
export async function pruneReplicas(db: Db): Promise<number> {
  const { rowCount } = await db.query(`delete from replicas where seen_at < now() - interval '1 day'`)
  return rowCount ?? 0
}

// Commands that a host could not execute, kept until it can. A later turn of the desktop makes a command obsolete.
import type { DeferredJson, deferrable } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

export interface DeferredCommand {
  desktopId: string
  hostId: string
  command: (typeof deferrable)[number]
  generation: number
  turn: number
  operationId: string
}

interface DeferredRow extends DeferredCommand {
  attempts: number
  lastTriedAt: Date | null
  lastError: string | null
  createdAt: Date
}

const columns = `desktop_id as "desktopId", host_id as "hostId", command, generation, turn, operation_id as "operationId"`
/** The time between attempts doubles from 5 s up to a minute. */
const due = `last_tried_at is null
  or last_tried_at < now() - least(60, 5 * 2 ^ least(attempts - 1, 4)) * interval '1 second'`

/** Until these commands are done, the host's copy of the desktop will still change. */
const explains = `command in ('desktop.ensureAsleep', 'move.keep', 'move.settle')`

export async function defer(db: Db, deferred: DeferredCommand): Promise<void> {
  const { desktopId, hostId, command, generation, turn, operationId } = deferred
  await db.query(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (desktop_id, host_id, command) do update
       set generation = excluded.generation, turn = excluded.turn, operation_id = excluded.operation_id,
         attempts = 0, last_tried_at = null, last_error = null`,
    [desktopId, hostId, command, generation, turn, operationId],
  )
}

/** Oldest first. */
export async function ofHost(db: Db, hostId: string): Promise<DeferredCommand[]> {
  const { rows } = await db.query<DeferredCommand>(
    `select ${columns} from deferred_commands where host_id = $1 order by created_at`,
    [hostId],
  )
  return rows
}

/** Deferred commands of the desktop's moves on this host, oldest first. */
export async function ofMove(db: Db, desktopId: string, hostId: string): Promise<DeferredCommand[]> {
  const { rows } = await db.query<DeferredCommand>(
    `select ${columns} from deferred_commands where desktop_id = $1 and host_id = $2 and command like 'move.%' order by created_at`,
    [desktopId, hostId],
  )
  return rows
}

export interface PausedDesktop {
  desktopId: string
  hostId: string
  command: string
  turn: number
  since: Date
  /** The error of the last attempt; null if the host is unreachable. */
  error: string | null
}

/**
 * Desktops that count as awake, although a move may have left the guest paused: the last command of the move has been deferred
 * for this long.
 */
export async function pausedByMoves(db: Db, forMs: number): Promise<PausedDesktop[]> {
  const { rows } = await db.query<PausedDesktop>(
    `select c.desktop_id as "desktopId", c.host_id as "hostId", c.command, c.turn, c.created_at as since,
       c.last_error as error
     from deferred_commands c join desktops d on d.id = c.desktop_id and d.host_id = c.host_id
     where c.command in ('move.settle', 'move.keep') and d.state = 'awake' and d.turn = c.turn
       and c.created_at < now() - $1 * interval '1 millisecond'
     order by c.created_at`,
    [forMs],
  )
  return rows
}

/** The hosts that still have parts of the desktop that a deferred command will remove. */
export async function hostsOf(db: Db, desktopId: string): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select distinct host_id as id from deferred_commands where desktop_id = $1',
    [desktopId],
  )
  return rows.map(({ id }) => id)
}

/** Which of these hosts have a command that is due for another attempt. */
export async function hostsAmong(db: Db, hostIds: string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select distinct host_id as id from deferred_commands where host_id = any($1) and (${due})`,
    [hostIds],
  )
  return rows.map(({ id }) => id)
}

/** Whether the undo of the desktop's latest turn is still deferred. That explains the state on the host. */
export async function owesUndo(db: Db, desktopId: string, hostId: string, turn: number): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from deferred_commands
     where desktop_id = $1 and host_id = $2 and ${explains} and turn = $3`,
    [desktopId, hostId, turn],
  )
  return rowCount !== 0
}

/** The desktops of the host with a deferred undo of their latest turn, with that turn. */
export async function owedUndos(db: Db, hostId: string): Promise<Map<string, number>> {
  const { rows } = await db.query<{ id: string; turn: number }>(
    `select desktop_id as id, turn from deferred_commands where host_id = $1 and ${explains}`,
    [hostId],
  )
  return new Map(rows.map(({ id, turn }) => [id, turn]))
}

/** The desktops that still have parts on this host that the end of a move will remove. */
export async function leavingFrom(db: Db, hostId: string): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>(
    `select desktop_id as id from deferred_commands
     where host_id = $1 and command in ('move.release', 'move.abandon')`,
    [hostId],
  )
  return new Set(rows.map(({ id }) => id))
}

/** For operators: all deferred commands, oldest first. */
export async function list(db: Db, limit: number): Promise<DeferredJson[]> {
  const { rows } = await db.query<DeferredRow>(
    `select ${columns}, attempts, last_tried_at as "lastTriedAt", last_error as "lastError", created_at as "createdAt"
     from deferred_commands order by created_at, desktop_id, command limit $1`,
    [limit],
  )
  return rows.map(deferredToJson)
}

/** Counts a failed attempt and stores its error. */
export async function tried(db: Db, deferred: DeferredCommand, error: string): Promise<void> {
  const { desktopId, hostId, command, turn } = deferred
  await db.query(
    `update deferred_commands set attempts = attempts + 1, last_tried_at = now(), last_error = $5
     where desktop_id = $1 and host_id = $2 and command = $3 and turn = $4`,
    [desktopId, hostId, command, turn, error],
  )
}

export async function done(db: Db, deferred: DeferredCommand): Promise<void> {
  await db.query(
    'delete from deferred_commands where desktop_id = $1 and host_id = $2 and command = $3 and turn = $4',
    [deferred.desktopId, deferred.hostId, deferred.command, deferred.turn],
  )
}

/** Deletes the deferred commands of a removed host. */
export async function dropOf(db: Db, hostId: string): Promise<void> {
  await db.query('delete from deferred_commands where host_id = $1', [hostId])
}

/**
 * Deletes the deferred commands of a lost host, except those that remove something, and those that end a move if the host
 * returns.
 */
export async function dropUndosOf(db: Db, hostId: string): Promise<void> {
  const kept = ['desktop.ensureDestroyed', 'move.release', 'move.abandon', 'move.keep']
  await db.query('delete from deferred_commands where host_id = $1 and command <> all($2)', [hostId, kept])
}

const deferredToJson = (row: DeferredRow): DeferredJson => ({
  desktop_id: row.desktopId,
  host_id: row.hostId,
  command: row.command,
  operation_id: row.operationId,
  attempts: row.attempts,
  last_tried_at: row.lastTriedAt?.toISOString() ?? null,
  last_error: row.lastError,
  created_at: row.createdAt.toISOString(),
})

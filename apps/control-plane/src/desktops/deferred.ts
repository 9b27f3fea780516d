// Commands that could not reach their host: kept until it is back. A later turn of the desktop makes one pointless.
import type { Db } from '../db/pool.ts'

export interface DeferredCommand {
  desktopId: string
  hostId: string
  command: 'desktop.ensureAsleep' | 'desktop.ensureDestroyed'
  generation: number
  turn: number
  operationId: string
}

const columns = `desktop_id as "desktopId", host_id as "hostId", command, generation, turn, operation_id as "operationId"`

export async function defer(db: Db, deferred: DeferredCommand): Promise<void> {
  const { desktopId, hostId, command, generation, turn, operationId } = deferred
  await db.query(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id)
     values ($1, $2, $3, $4, $5, $6)
     on conflict (desktop_id, host_id, command) do update
       set generation = excluded.generation, turn = excluded.turn, operation_id = excluded.operation_id`,
    [desktopId, hostId, command, generation, turn, operationId],
  )
}

export async function ofHost(db: Db, hostId: string): Promise<DeferredCommand[]> {
  const { rows } = await db.query<DeferredCommand>(
    `select ${columns} from deferred_commands where host_id = $1 order by created_at`,
    [hostId],
  )
  return rows
}

/** Those of the hosts for which something was put off. */
export async function hostsAmong(db: Db, hostIds: string[]): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    'select distinct host_id as id from deferred_commands where host_id = any($1)',
    [hostIds],
  )
  return rows.map(({ id }) => id)
}

export async function done(db: Db, deferred: DeferredCommand): Promise<void> {
  await db.query(
    'delete from deferred_commands where desktop_id = $1 and host_id = $2 and command = $3 and turn = $4',
    [deferred.desktopId, deferred.hostId, deferred.command, deferred.turn],
  )
}

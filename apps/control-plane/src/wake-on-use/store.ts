// The table of wakes that calls on other replicas than the leader's want. No other module writes it.
import type { Db } from '../db/pool.ts'

export interface WantedWake {
  id: string
  desktopId: string
  orgId: string
  requestId: string
}

/** What the leader says: the operation that wakes the desktop, or why there is none. */
export interface Answer {
  operationId: string | null
  refusal: unknown
}

export async function insert(db: Db, { id, desktopId, orgId, requestId }: WantedWake): Promise<void> {
  await db.query({
    name: 'wakes-wanted-insert',
    text: 'insert into wakes_wanted (id, desktop_id, org_id, request_id) values ($1, $2, $3, $4)',
    values: [id, desktopId, orgId, requestId],
  })
}

/** Those without an answer, the oldest first. For older ones, no call waits any more. */
export async function open(db: Db, limit: number): Promise<WantedWake[]> {
  const { rows } = await db.query<WantedWake>({
    name: 'wakes-wanted-open',
    text: `select id, desktop_id as "desktopId", org_id as "orgId", request_id as "requestId" from wakes_wanted
           where operation_id is null and refusal is null and wanted_at > clock_timestamp() - interval '20 s' order by id limit $1`,
    values: [limit],
  })
  return rows
}

export async function answer(db: Db, id: string, { operationId, refusal }: Answer): Promise<void> {
  await db.query('update wakes_wanted set operation_id = $2, refusal = $3 where id = $1', [
    id,
    operationId,
    refusal === null ? null : JSON.stringify(refusal),
  ])
}

/** Those of these ids that the leader has answered. */
export async function answers(db: Db, ids: readonly string[]): Promise<Map<string, Answer>> {
  const { rows } = await db.query<Answer & { id: string }>({
    name: 'wakes-wanted-answers',
    text: `select id, operation_id as "operationId", refusal from wakes_wanted
           where id = any($1) and (operation_id is not null or refusal is not null)`,
    values: [ids],
  })
  return new Map(rows.map((row) => [row.id, row]))
}

export async function remove(db: Db, id: string): Promise<void> {
  await db.query('delete from wakes_wanted where id = $1', [id])
}

/** Those whose replica did not come back for the answer. */
export async function prune(db: Db): Promise<number> {
  const { rowCount } = await db.query(
    `delete from wakes_wanted where wanted_at < clock_timestamp() - interval '1 minute'`,
  )
  return rowCount ?? 0
}

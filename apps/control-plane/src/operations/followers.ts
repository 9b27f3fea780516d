// The rows of the table of operations that wait behind another one, and those behind which they wait.
import type { OperationRequester } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import type { Failure } from './failures.ts'
import { columns, type OperationRow, settledMeanwhile } from './store.ts'

/** Which of a desktop's live operations a request finds. */
export interface Line {
  /** A restore, or what the service itself has begun: a move, or a hibernation by idle or by a drain. Any request waits behind it. */
  ahead: OperationRow | undefined
  /** What is in progress, whoever has requested it. */
  current: OperationRow | undefined
  /** The request that waits behind it. */
  next: OperationRow | undefined
}

/** Read it behind the desktop's lock. */
export async function lineOf(db: Db, desktopId: string): Promise<Line> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-line',
    text: `select ${columns} from operations where desktop_id = $1 and state in ('pending', 'running')`,
    values: [desktopId],
  })
  return {
    ahead: rows.find((row) => row.kind === 'move' || row.kind === 'restore' || isOwnHibernation(row)),
    current: rows.find(({ behind }) => behind === null),
    next: rows.find(({ behind }) => behind !== null),
  }
}

const asked: readonly OperationRequester[] = ['caller', 'operator', 'schedule']

/** A hibernation that nobody outside the service has requested. One by a schedule is like its customer's. */
export const isOwnHibernation = ({ kind, requestedBy, behind }: OperationRow): boolean =>
  kind === 'hibernate' && behind === null && !asked.includes(requestedBy)

/** The request that waits behind this operation, once that has settled. */
export async function followerOf(db: Db, behind: string): Promise<OperationRow | undefined> {
  const { rows } = await db.query<OperationRow>(
    `select ${columns} from operations o
     where desktop_id = (select desktop_id from operations where id = $1 and settled_at is not null)
       and behind = $1 and state in ('pending', 'running')`,
    [behind],
  )
  return rows[0]
}

/** A request that has waited begins, with all of its time. */
export async function startFollower(
  db: Db,
  id: string,
  begun: Pick<OperationRow, 'generation' | 'generationId' | 'turn' | 'input'>,
): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>(
    `update operations set behind = null, generation = $2, generation_id = $3, turn = $4, input = $5,
       updated_at = clock_timestamp()
     where id = $1 and behind is not null returning ${columns}`,
    [id, begun.generation, begun.generationId, begun.turn, begun.input],
  )
  return rows[0]!
}

/** A live operation that has done nothing yet waits behind another one, and keeps what is left of its time. */
export async function goBehind(db: Db, id: string, behind: string, leftMs: number): Promise<void> {
  const { rowCount } = await db.query(
    `update operations set behind = $2, state = 'pending', step = -1, findings = '{}', updated_at = clock_timestamp(),
       deadline_at = created_at + $3 * interval '1 millisecond'
     where id = $1 and state in ('pending', 'running') and behind is null`,
    [id, behind, leftMs],
  )
  if (rowCount !== 1) throw settledMeanwhile()
}

/** Settles a request that waits as superseded. The desktop's lock keeps it waiting. */
export async function supersedeOne(db: Db, id: string, failure: Failure): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>(
    `update operations set state = 'failed', settled_at = clock_timestamp(), updated_at = clock_timestamp(),
       error = $2, error_code = $3, cause = $4
     where id = $1 and state in ('pending', 'running') returning ${columns}`,
    [id, failure.detail, failure.code, failure.cause],
  )
  return rows[0]!
}

/** Whether a request waits behind the operation, other than the one for which it was begun. */
export async function hasFollower(db: Db, id: string, begunFor: string | undefined): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from operations o join operations f on f.desktop_id = o.desktop_id and f.behind = o.id
     where o.id = $1 and f.state in ('pending', 'running') and f.id is distinct from $2`,
    [id, begunFor],
  )
  return rowCount !== 0
}

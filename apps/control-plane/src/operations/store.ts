// The table of operations.
import type {
  AdminOperationJson,
  OperationJson,
  OperationKind,
  OperationProgress,
  OperationRequester,
  OperationResult,
  OperationState,
  RefusalCode,
} from '@dormouse/contract'
import { atLeastOne } from '../db/guards.ts'
import type { Db } from '../db/pool.ts'
import { Abandoned, type Failure } from './failures.ts'

/** As it is stored; the definition of its kind has the schemas of `input` and `findings`. */
export interface OperationRow<I = object, F = object> {
  id: string
  desktopId: string
  orgId: string
  kind: OperationKind
  requestedBy: OperationRequester
  state: OperationState
  generation: number
  generationId: string | null
  turn: number
  /** The operation behind which it waits; null once it has begun. Its generation and turn are the desktop's until then. */
  behind: string | null
  input: I
  step: number
  findings: F
  undoing: boolean
  /** Why it is being undone; null while it goes forward. */
  failure: Failure | null
  result: OperationResult | null
  error: string | null
  errorCode: RefusalCode | null
  /** Why it failed, for operators. */
  cause: string | null
  requestId: string | null
  fingerprint: Buffer | null
  /**
   * Until its deadline, at the time of reading, by the database's clock, which all replicas share. An operation that has not
   * begun has all of its time left: the first mark moves the deadline.
   */
  leftMs: number
  /** Since its acceptance, as above. */
  ageMs: number
  createdAt: Date
  updatedAt: Date
  settledAt: Date | null
}

export const columns = `id, desktop_id as "desktopId", org_id as "orgId", kind, requested_by as "requestedBy", state, generation,
  generation_id as "generationId", turn, behind, input, step, findings, undoing, failure, result, error,
  error_code as "errorCode", cause, request_id as "requestId", fingerprint,
  (extract(epoch from deadline_at - case when state = 'pending' then created_at else clock_timestamp() end)
    * 1000)::float8 as "leftMs",
  (extract(epoch from clock_timestamp() - created_at) * 1000)::float8 as "ageMs",
  created_at as "createdAt", updated_at as "updatedAt", settled_at as "settledAt"`

export interface NewOperation<I = object> {
  id: string
  desktopId: string
  orgId: string
  kind: OperationKind
  /** By default its caller. */
  requestedBy?: OperationRequester
  /** The operation behind which it waits. */
  behind?: string | null
  generation: number
  generationId: string | null
  turn: number
  input: I
  requestId: string
  key: string | null
  fingerprint: Buffer | null
  deadlineMs: number
}

/** An operation begins in the transaction that accepts it: with the last of these steps. Those before it are done. */
export interface Begun {
  step: number
  steps: string[]
  findings: object
}

const notBegun: Begun = { step: -1, steps: [], findings: {} }

/** Stores an operation. The same transaction must change the state of what it acts on. */
export async function insert(db: Db, op: NewOperation, begun = notBegun): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-insert-begun',
    text: `insert into operations (id, desktop_id, org_id, kind, generation, generation_id, turn, input, request_id,
             idempotency_key, fingerprint, deadline_at, state, step, findings, requested_by, behind, timeline)
           values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp() + $12 * interval '1 millisecond',
             case when $13::int < 0 then 'pending' else 'running' end, $13, $14, $16, $17,
             (select coalesce(jsonb_agg(jsonb_build_object('step', step, 'way', 'run', 'at', clock_timestamp())), '[]')
              from unnest($15::text[]) step))
           returning ${columns}`,
    values: [
      op.id,
      op.desktopId,
      op.orgId,
      op.kind,
      op.generation,
      op.generationId,
      op.turn,
      op.input,
      op.requestId,
      op.key,
      op.fingerprint,
      op.deadlineMs,
      begun.step,
      begun.findings,
      begun.steps,
      op.requestedBy ?? 'caller',
      op.behind ?? null,
    ],
  })
  return rows[0]!
}

/** Stores an operation that had nothing to do. It is never in progress, so it stands beside one that is. */
export async function insertSucceeded(db: Db, op: NewOperation, result: object): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>(
    `insert into operations (id, desktop_id, org_id, kind, generation, generation_id, turn, input, request_id,
       idempotency_key, fingerprint, deadline_at, state, settled_at, result)
     values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, clock_timestamp(), 'succeeded', clock_timestamp(), $12)
     returning ${columns}`,
    [
      ...[op.id, op.desktopId, op.orgId, op.kind, op.generation, op.generationId, op.turn, op.input, op.requestId],
      ...[op.key, op.fingerprint, { ...result, duration_ms: 0 }],
    ],
  )
  return rows[0]!
}

export async function find(db: Db, orgId: string, id: string): Promise<OperationRow | undefined> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-find',
    text: `select ${columns} from operations where org_id = $1 and id = $2`,
    values: [orgId, id],
  })
  return rows[0]
}

export async function read(db: Db, id: string): Promise<OperationRow | undefined> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-read',
    text: `select ${columns} from operations where id = $1`,
    values: [id],
  })
  return rows[0]
}

export async function readMany(db: Db, ids: string[]): Promise<OperationRow[]> {
  const { rows } = await db.query<OperationRow>(`select ${columns} from operations where id = any($1)`, [ids])
  return rows
}

export async function findByKey(db: Db, desktopId: string, key: string): Promise<OperationRow | undefined> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-by-key',
    text: `select ${columns} from operations where desktop_id = $1 and idempotency_key = $2`,
    values: [desktopId, key],
  })
  return rows[0]
}

export async function listOfDesktop(db: Db, orgId: string, desktopId: string, limit: number): Promise<OperationRow[]> {
  const { rows } = await db.query<OperationRow>(
    `select ${columns} from operations where org_id = $1 and desktop_id = $2 order by id desc limit $3`,
    [orgId, desktopId, limit],
  )
  return rows
}

/** The latest operation that has brought the desktop to this generation's state; undefined if none is kept. */
export async function latestSuccess(
  db: Db,
  { desktopId, kind, generation }: Pick<OperationRow, 'desktopId' | 'kind' | 'generation'>,
): Promise<OperationRow | undefined> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-latest-success',
    text: `select ${columns} from operations
           where desktop_id = $1 and kind = $2 and generation = $3 and state = 'succeeded' order by id desc limit 1`,
    values: [desktopId, kind, generation],
  })
  return rows[0]
}

/** The ids of all that have not settled, oldest first: what a new leader resumes. */
export async function liveIds(db: Db): Promise<string[]> {
  const { rows } = await db.query<{ id: string }>(
    `select id from operations where state in ('pending', 'running') order by id`,
  )
  return rows.map(({ id }) => id)
}

/** Those of these operations that have not settled, oldest first. */
export async function liveOf(db: Db, ids: string[]): Promise<OperationRow[]> {
  const { rows } = await db.query<OperationRow>(
    `select ${columns} from operations where id = any($1) and state in ('pending', 'running') order by id`,
    [ids],
  )
  return rows
}

/** Whether the desktop has a live operation. Nothing else changes its state then. */
export async function hasLive(db: Db, desktopId: string): Promise<boolean> {
  const { rowCount } = await db.query(
    `select 1 from operations where desktop_id = $1 and state in ('pending', 'running')`,
    [desktopId],
  )
  return rowCount !== 0
}

/** Which of these desktops have a live operation. */
export async function liveAmong(db: Db, desktopIds: string[]): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>(
    `select desktop_id as id from operations where desktop_id = any($1) and state in ('pending', 'running')`,
    [desktopIds],
  )
  return new Set(rows.map(({ id }) => id))
}

/**
 * Stores the engine's progress and how much time is left; false if the operation has settled meanwhile because it was
 * superseded. `steps` begin now; all but the last are done with this transaction.
 */
export async function mark(
  db: Db,
  op: Pick<OperationRow, 'id' | 'step' | 'findings' | 'undoing' | 'failure' | 'leftMs'>,
  steps: string[],
): Promise<boolean> {
  const { rowCount } = await db.query({
    name: 'operations-mark-steps',
    text: `update operations set state = 'running', step = $2, findings = $3, undoing = $4, failure = $5,
             updated_at = clock_timestamp(), deadline_at = clock_timestamp() + $8 * interval '1 millisecond',
             timeline = case
               when timeline->-1->>'step' = ($6::text[])[array_length($6::text[], 1)] and timeline->-1->>'way' = $7 then timeline
               else timeline || (
                 select jsonb_agg(jsonb_build_object('step', step, 'way', $7::text, 'at', clock_timestamp()))
                 from unnest($6::text[]) step) end
           where id = $1 and state in ('pending', 'running')`,
    values: [op.id, op.step, op.findings, op.undoing, op.failure, steps, op.undoing ? 'undo' : 'run', op.leftMs],
  })
  return rowCount === 1
}

/** Locks a live operation's row in the transaction that settles it. Throws `Abandoned` if it has settled already. */
export async function requireLive(db: Db, id: string): Promise<void> {
  const { rowCount } = await db.query({
    name: 'operations-lock',
    text: `select 1 from operations where id = $1 and state in ('pending', 'running') for update`,
    values: [id],
  })
  if (rowCount !== 1) throw settledMeanwhile()
}

/** Gives a live operation a later turn of its desktop, and stores what it has found. */
export async function retake(db: Db, { id, turn, findings }: Pick<OperationRow, 'id' | 'turn' | 'findings'>) {
  const { rowCount } = await db.query(
    `update operations set turn = $2, findings = $3, updated_at = clock_timestamp()
     where id = $1 and state in ('pending', 'running')`,
    [id, turn, findings],
  )
  if (rowCount !== 1) throw settledMeanwhile()
}

export const settledMeanwhile = (): Abandoned => new Abandoned('the operation has settled meanwhile')

/** Fails as a guard if it has settled already. */
export async function settleSucceeded(db: Db, id: string, result: object, findings: object): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-succeed',
    text: `with settled as (
             update operations set state = 'succeeded', settled_at = clock_timestamp(), updated_at = clock_timestamp(),
               findings = $3,
               result = $2::jsonb || jsonb_build_object('duration_ms',
                 floor(extract(epoch from clock_timestamp() - created_at) * 1000)::bigint)
             where id = $1 and state in ('pending', 'running') returning ${columns})
           select settled.* from ${atLeastOne('settled')} guard left join settled on true`,
    values: [id, result, findings],
  })
  return rows[0]!
}

export async function settleFailed(db: Db, id: string, failure: Failure, findings: object): Promise<OperationRow> {
  const { rows } = await db.query<OperationRow>({
    name: 'operations-failed',
    text: `update operations set state = 'failed', settled_at = clock_timestamp(), updated_at = clock_timestamp(),
             error = $2, error_code = $3, cause = $4, findings = $5
           where id = $1 and state in ('pending', 'running') returning ${columns}`,
    values: [id, failure.detail, failure.code, failure.cause, findings],
  })
  return rows[0]!
}

/** Removes a settled operation, unless a request waits behind it: what begins that removes it then. */
export async function removeUnlessAwaited(db: Db, id: string): Promise<void> {
  await db.query(
    `delete from operations o where id = $1 and state = 'failed' and not exists (
       select 1 from operations f where f.desktop_id = o.desktop_id and f.behind = o.id and f.state in ('pending', 'running'))`,
    [id],
  )
}

/** Settles the live operations of a desktop as superseded: the one in progress, and the one that waits. */
export async function supersede(db: Db, desktopId: string, failure: Failure): Promise<OperationRow[]> {
  const { rows } = await db.query<OperationRow>(
    `update operations set state = 'failed', settled_at = clock_timestamp(), updated_at = clock_timestamp(),
       error = $2, error_code = $3, cause = $4
     where desktop_id = $1 and state in ('pending', 'running') returning ${columns}`,
    [desktopId, failure.detail, failure.code, failure.cause],
  )
  return rows
}

/** Settles the live operations of these desktops as superseded. */
export async function supersedeAll(db: Db, desktopIds: string[], failure: Failure): Promise<OperationRow[]> {
  const { rows } = await db.query<OperationRow>(
    `update operations set state = 'failed', settled_at = clock_timestamp(), updated_at = clock_timestamp(),
       error = $2, error_code = $3, cause = $4
     where desktop_id = any($1) and state in ('pending', 'running') returning ${columns}`,
    [desktopIds, failure.detail, failure.code, failure.cause],
  )
  return rows
}

/** Which of these desktops have a live wake that began in that state. */
export async function wakingFrom(db: Db, desktopIds: string[], from: string): Promise<Set<string>> {
  const { rows } = await db.query<{ id: string }>(
    `select desktop_id as id from operations
     where desktop_id = any($1) and state in ('pending', 'running') and kind = 'wake' and input->>'from' = $2`,
    [desktopIds, from],
  )
  return new Set(rows.map(({ id }) => id))
}

/** The operation as customers see it. */
export const operationToJson = (row: OperationRow, progress: OperationProgress | null): OperationJson => ({
  id: row.id,
  desktop_id: row.desktopId,
  kind: row.kind,
  requested_by: row.requestedBy,
  state: row.state,
  result: row.result,
  error: row.error,
  error_code: row.errorCode,
  progress,
  created_at: row.createdAt.toISOString(),
  updated_at: row.updatedAt.toISOString(),
  settled_at: row.settledAt?.toISOString() ?? null,
})

interface Mark {
  step: string
  way: 'run' | 'undo'
  at: string
}

/** The operation as operators see it; undefined if there is none. */
export async function readWhole(
  db: Db,
  id: string,
  progressOf: (row: OperationRow) => OperationProgress | null,
): Promise<AdminOperationJson | undefined> {
  const { rows } = await db.query<OperationRow & { timeline: Mark[] }>(
    `select ${columns}, timeline from operations where id = $1`,
    [id],
  )
  return rows[0] && { ...operationToJson(rows[0], progressOf(rows[0])), ...forOperators(rows[0]) }
}

const forOperators = (row: OperationRow & { timeline: Mark[] }) => ({
  org_id: row.orgId,
  generation: row.generation,
  turn: row.turn,
  cause: row.cause,
  request_id: row.requestId,
  findings: { ...row.findings },
  timeline: row.timeline.map(({ at, ...mark }, i) => {
    const next = row.timeline[i + 1]?.at ?? row.settledAt
    const began = new Date(at)
    return {
      ...mark,
      at: began.toISOString(),
      duration_ms: next === null ? null : new Date(next).getTime() - began.getTime(),
    }
  }),
})

export const isSettled = (row: OperationRow): boolean => row.state === 'succeeded' || row.state === 'failed'

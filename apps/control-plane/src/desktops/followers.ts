// Begins a request that has waited behind a move or behind a hibernation by the service, after that has settled. Only then do
// generation and turn rise. If the requested result is already true, the request succeeds at once.
import { isRequestKind, messageOf, newId } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { followerOf, startFollower } from '../operations/followers.ts'
import * as operations from '../operations/store.ts'
import { wasFutile } from './operations/carry.ts'
import { wakeInput } from './operations/stored.ts'
import { sizesOf } from './sizes.ts'
import { begin, takeTurn } from './state-changes.ts'
import { illegalRequest, isLegal } from './states.ts'
import { type DesktopRow, lockAny, specOf } from './store.ts'

/**
 * Returns the request after it has begun, or after it has failed because the desktop's state no longer allows it. Undefined if
 * no request waits, or if the operation before it has not settled.
 */
export async function beginFollower(tx: Db, behind: string): Promise<operations.OperationRow | undefined> {
  const begun = await beginWaiting(tx, behind)
  if (begun) await removeVanished(tx, behind)
  return begun
}

async function beginWaiting(tx: Db, behind: string): Promise<operations.OperationRow | undefined> {
  const waiting = await followerOf(tx, behind)
  const row = waiting && (await lockAny(tx, waiting.desktopId))
  // Read again under the lock: a destroy may have superseded it.
  const next = row && (await followerOf(tx, behind))
  if (!row || !next || !isRequestKind(next.kind)) return undefined
  const { kind } = next
  const done = await succeedAtOnce(tx, behind, next, row)
  if (done) return done
  if (kind === 'wake' && row.state === 'waking') return resume(tx, next, row)
  if (!isLegal(kind, row.state)) {
    const cause = illegalRequest(kind, row.state, row.failureCode)
    return operations.settleFailed(tx, next.id, { code: 'wrong_state', detail: messageOf('wrong_state'), cause }, {})
  }
  const generationId = kind === 'wake' ? newId() : null
  await begin(tx, row.id, kind, generationId)
  return startFollower(tx, next.id, {
    generation: row.generation + (kind === 'wake' ? 1 : 0),
    generationId: generationId ?? row.currentGenerationId,
    turn: row.turn + 1,
    input: { ...next.input, ...nowOf(row), ...(kind === 'wake' && { sizes: sizesOf(row) }) },
  })
}

/** What was requested while it waited counts. */
const nowOf = (row: DesktopRow) => ({ from: row.state, hostId: row.hostId, spec: specOf(row), tier: row.tier })

/** Continues a wake that gave way to a move. It wakes the desktop on its present host, in the turn after that of the move. */
async function resume(
  tx: Db,
  { id, input }: operations.OperationRow,
  row: DesktopRow,
): Promise<operations.OperationRow> {
  const { generation, currentGenerationId: generationId, turn, hostId } = row
  await takeTurn(tx, row.id)
  const begun = { generation, generationId, turn: turn + 1, input: { ...input, hostId, staysThere: true } }
  return startFollower(tx, id, begun)
}

/**
 * After a hibernation by the service, a waiting hibernation has its result if the hibernation succeeded, and a waiting wake if
 * it failed. Undefined if the request still has work to do.
 */
async function succeedAtOnce(
  tx: Db,
  behind: string,
  next: operations.OperationRow,
  row: DesktopRow,
): Promise<operations.OperationRow | undefined> {
  const { kind } = next
  const isAsleep = kind === 'hibernate' && row.state === 'hibernated'
  const isAwake = kind === 'wake' && row.state === 'awake' && !wakeInput.parse(next.input).discardMemory
  if (!(isAsleep || isAwake) || (await operations.read(tx, behind))?.kind !== 'hibernate') return undefined
  const { state, generation, currentGenerationId: generationId, hostId } = row
  const resumed = kind === 'wake' ? { resumed_from: 'memory' } : {}
  const result = { desktop_state: state, generation, generation_id: generationId, host_id: hostId, ...resumed }
  return operations.settleSucceeded(tx, next.id, result, {})
}

/** Removes an operation without effect, which was kept only for the request that waited behind it. */
async function removeVanished(tx: Db, id: string): Promise<void> {
  const settled = await operations.read(tx, id)
  if (!settled) return
  const wasInUse = settled.requestedBy === 'idle' && settled.errorCode === 'not_idle'
  if (wasInUse || wasFutile(settled)) await operations.removeUnlessAwaited(tx, id)
}

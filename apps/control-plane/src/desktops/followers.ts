// Begins a request that has waited behind a move, once the move has settled: only now generation and turn rise.
import { messageOf, newId } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'
import { followerOf, startFollower } from '../operations/followers.ts'
import * as operations from '../operations/store.ts'
import { inputOf } from './operations/input.ts'
import { begin } from './state-changes.ts'
import { illegalRequest, isLegal } from './states.ts'
import { lockAny, specOf } from './store.ts'

/**
 * Answers the request as it has begun, or as it has failed where the desktop's state no longer allows it. Undefined where none
 * waits, or the operation before it has not settled.
 */
export async function beginFollower(tx: Db, behind: string): Promise<operations.OperationRow | undefined> {
  const waiting = await followerOf(tx, behind)
  const row = waiting && (await lockAny(tx, waiting.desktopId))
  // Behind the lock: a destroy may have superseded it.
  const next = row && (await followerOf(tx, behind))
  if (!row || !next || next.kind === 'move') return undefined
  const { kind } = next
  if (!isLegal(kind, row.state)) {
    const cause = illegalRequest(kind, row.state, row.failureCode)
    return operations.settleFailed(tx, next.id, { code: 'wrong_state', detail: messageOf('wrong_state'), cause }, {})
  }
  const generationId = kind === 'wake' ? newId() : null
  await begin(tx, row.id, kind, generationId)
  const { discardMemory } = inputOf({ operation: next })
  return startFollower(tx, next.id, {
    generation: row.generation + (kind === 'wake' ? 1 : 0),
    generationId: generationId ?? row.currentGenerationId,
    turn: row.turn + 1,
    input: { from: row.state, discardMemory, hostId: row.hostId, spec: specOf(row) },
  })
}

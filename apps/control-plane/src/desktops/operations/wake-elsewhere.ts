// A wake of a desktop whose host is cordoned or full. A move to another host goes first, and the wake waits behind it. Then the
// desktop wakes on its present host, whether or not the move has succeeded.
import { newId } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Leadership } from '../../leadership/leadership.ts'
import { type StepContext, WaitsBehind } from '../../operations/definition.ts'
import { goBehind } from '../../operations/followers.ts'
import * as operations from '../../operations/store.ts'
import { sizeOfWake } from '../sizes.ts'
import { takeTurn } from '../state-changes.ts'
import { lockAny, specOf } from '../store.ts'
import type { MoveInput, WakeFindings, WakeInput } from './stored.ts'

/** The desktop's host, and whether a host that is reachable only through a relay will do, which takes longer. */
interface Leaving {
  from: string
  mayRelay: boolean
}

/** Begins the move, and throws `WaitsBehind`. The desktop counts as waking meanwhile. */
export async function moveFirst(
  { leadership }: { leadership: Leadership },
  { operation, remainingMs }: StepContext<WakeInput, WakeFindings>,
  { from, mayRelay }: Leaving,
): Promise<never> {
  const { id, desktopId, orgId, generation, generationId, requestedBy, requestId } = operation
  const { from: state } = operation.input
  const wakesAs = sizeOfWake(operation.input)
  const move = await leadership.transaction(async (tx) => {
    const desktop = await lockAny(tx, desktopId)
    if (desktop?.turn !== operation.turn) throw operations.settledMeanwhile()
    const moveId = newId()
    await goBehind(tx, id, moveId, remainingMs)
    // Its files still have the size that it has now.
    const own = { from: state, hostId: from, spec: specOf(desktop), tier: desktop.tier, wakesAs }
    const input: MoveInput = { ...own, to: null, mode: 'live', forWake: id, mayRelay }
    const [row] = await together([
      operations.insert(tx, {
        id: moveId,
        desktopId,
        orgId,
        kind: 'move',
        requestedBy,
        generation,
        generationId,
        turn: operation.turn + 1,
        input,
        requestId: requestId ?? moveId,
        key: null,
        fingerprint: null,
        deadlineMs: remainingMs,
      }),
      takeTurn(tx, desktopId),
    ])
    return row
  })
  throw new WaitsBehind(move)
}

// The claim `control`, borrowed for a batch of input: the one claim that people and programs share.
import { newId } from '@dormouse/contract'
import * as audit from '../audit/store.ts'
import type { Db } from '../db/pool.ts'
import * as store from './store.ts'

export interface BorrowParams extends store.Holder {
  desktopId: string
  takeover: boolean
  /** At most; it is given back before. */
  forMs: number
  /** Throws if another client holds it. */
  refuseHeld(held: { holder: string; since: Date | null; until: Date }): Promise<never> | Promise<void>
}

export interface Borrowed {
  desktopId: string
  /** The hold under which it was borrowed. Another one means that it was taken over. */
  holdId: string
  /** Whether another client held it. */
  lost: boolean
  /** Whether its holder is another one than before: a screen that the other one has left open may not type any more. */
  isHandedOver: boolean
  /** Until when it was held before, and since then. As text: a Date has no microseconds. */
  before: string
  until: string
}

/** In the caller's transaction, with the claim's row locked. A holder who borrows from itself keeps its open socket. */
export async function borrow(tx: Db, params: BorrowParams): Promise<Borrowed> {
  const { desktopId, holder, generation, takeover, forMs } = params
  const screen = { desktopId, claim: 'control' } as const
  const now = await store.lock(tx, screen)
  if (now.holder === holder) {
    await store.prolong(tx, screen, params)
    return {
      desktopId,
      holdId: now.holdId,
      lost: false,
      isHandedOver: false,
      ...(await store.lend(tx, now, screen, forMs)),
    }
  }
  const lost = now.isHeld && now.generation === generation
  if (lost && !takeover) await params.refuseHeld({ holder: now.holder, since: now.heldSince, until: now.heldUntil })
  const holdId = newId()
  await store.hand(tx, screen, { ...params, holdId })
  // When a new holder's hold ends, nothing is left of it.
  const lent = await store.lend(tx, undefined, screen, forMs)
  if (lost) {
    const details = { claim: 'control', from: now.holder }
    await audit.recordOfCustomer(tx, { actor: holder, action: 'stream.takeover', subject: desktopId, details })
  }
  return { desktopId, holdId, lost, isHandedOver: true, ...lent }
}

/** The claim is as before, unless it has changed hands or was prolonged meanwhile. */
export const giveBack = (db: Db, borrowed: Borrowed): Promise<void> => store.giveBack(db, borrowed)

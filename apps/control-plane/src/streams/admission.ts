// Whether whoever shows a token may open a screen now: the claim, the desktop and the credential are checked again.
import type { StreamClaim } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { type Db, type Pool, transaction } from '../db/pool.ts'
import type { Principals } from '../principals/service.ts'
import { type Ending, endingOf, endings } from './endings.ts'
import type { Screen, Standing } from './store.ts'
import * as store from './store.ts'
import { hashOf, makeToken } from './tokens.ts'

export interface Admission {
  sessionId: string
  desktopId: string
  claim: StreamClaim
  generation: number
  hostId: string
  /** Opens the screen again within the grace. */
  ticket: string
}

/** Spends the token and enters the claim; answers the ending that the socket is closed with where that may not be. */
export function admit(pool: Pool, principals: Principals, screen: Screen, token: string): Promise<Admission | Ending> {
  return transaction(pool, async (tx) => {
    const standing = await store.lockStanding(tx, screen)
    if (!standing) return endings.spent
    const no = await whyNot(tx, standing, screen, hashOf(token))
    if (no) return no
    if ((await principals.withdrawn([standing.holder], tx)).size > 0) return endings.revoked
    const { generation, hostId } = standing.desktop
    const { token: ticket, hash: ticketHash } = makeToken()
    const sessionId = newId()
    await store.enter(tx, screen, { id: sessionId, generation, ticketHash })
    return { ...screen, sessionId, generation, hostId: hostId!, ticket }
  })
}

async function whyNot(tx: Db, now: Standing, screen: Screen, hash: Buffer): Promise<Ending | undefined> {
  const asleep = endingOf(now.desktop, now.desktop.generation)
  // A ticket is not spent on a desktop that sleeps: its page waits for the wake.
  if (now.ticketHash?.equals(hash)) return now.isHeld || now.waits ? asleep : endings.graceOver
  const token = await store.spendToken(tx, screen, hash)
  if (!token) return endings.spent
  if (token.holdId !== now.holdId) return endings.takenOver
  if (asleep) return asleep
  return token.generation === now.desktop.generation ? undefined : endings.spent
}

// Whether whoever shows a token may open a screen now: the claim, the desktop and the credential are checked again.
import type { StreamClaim } from '@dormouse/contract'
import { newId, screenCloses } from '@dormouse/contract'
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

export interface Entrance {
  screen: Screen
  token: string
  /** It takes tickets, and says when it has them. */
  isPage: boolean
  /** Counts the socket with whatever else its holder has open; throws where that is one too many, and nothing is spent. */
  count(holder: string): void
}

/** Spends the token and enters the claim; answers the ending that the socket is closed with where that may not be. */
export function admit(
  pool: Pool,
  principals: Principals,
  { screen, token, isPage, count }: Entrance,
): Promise<Admission | Ending> {
  return transaction(pool, async (tx) => {
    const standing = await store.lockStanding(tx, screen)
    if (!standing) return endings.spent
    const hash = hashOf(token)
    const no = await whyNot(tx, standing, screen, hash)
    // Whose way broke just before the desktop fell asleep waits for it, too.
    if (no?.code === screenCloses.asleep && standing.isHeld && returns(standing, hash)) await store.wait(tx, screen)
    if (no) return no
    if ((await principals.withdrawn([standing.holder], tx)).size > 0) return endings.revoked
    const { generation, hostId } = standing.desktop
    const { token: ticket, hash: ticketHash } = makeToken()
    const sessionId = newId()
    await store.enter(tx, screen, { id: sessionId, generation, ticketHash, previousHash: isPage ? hash : null })
    count(standing.holder)
    return { ...screen, sessionId, generation, hostId: hostId!, ticket }
  })
}

async function whyNot(tx: Db, now: Standing, screen: Screen, hash: Buffer): Promise<Ending | undefined> {
  const asleep = endingOf(now.desktop, now.desktop.generation)
  const isBack = returns(now, hash)
  const token = isBack ? undefined : await store.spendToken(tx, screen, hash)
  // Whoever shows neither learns nothing else of the claim.
  if (!isBack && !token) return endings.spent
  if (now.expired) return endings.expired
  if (!token) return now.isHeld || now.waits ? asleep : endings.graceOver
  if (token.holdId !== now.holdId) return endings.takenOver
  if (asleep) return asleep
  return token.generation === now.desktop.generation ? undefined : endings.spent
}

/**
 * Whether a page comes back with its ticket, which is not spent on a desktop that sleeps: it waits for the wake. Or with
 * what opened the last socket before it had the next ticket: the answer may not have reached it.
 */
const returns = ({ ticketHash, previousHash }: Standing, hash: Buffer): boolean =>
  Boolean(ticketHash?.equals(hash) || previousHash?.equals(hash))

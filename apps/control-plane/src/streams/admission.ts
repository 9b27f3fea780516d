// Decides whether a token opens a screen now: checks the claim, the desktop and the credential again.
import type { StreamClaim } from '@dormouse/contract'
import { newId, screenCloses } from '@dormouse/contract'
import type { Db, Pool } from '../db/pool.ts'
import { transaction } from '../db/transactions.ts'
import { hashOf, makeToken } from '../principals/random-tokens.ts'
import type { Principals } from '../principals/service.ts'
import { type Ending, endingOf, endings } from './endings.ts'
import type { Screen, Standing } from './store.ts'
import * as store from './store.ts'

export interface Admission {
  sessionId: string
  desktopId: string
  claim: StreamClaim
  generation: number
  hostId: string
  /** Reopens the screen within the grace period. */
  ticket: string
}

export interface Entrance {
  screen: Screen
  token: string
  /** It accepts tickets, and confirms them. */
  isPage: boolean
  /** Counts the socket for its holder; throws above the limit, and the token stays valid. */
  count(holder: string): void
}

/** Uses up the token and takes the claim's session; if that is refused, returns the ending to close the socket with. */
export function admit(
  pool: Pool,
  principals: Principals,
  { screen, token, isPage, count }: Entrance,
): Promise<Admission | Ending> {
  return transaction(pool, async (tx) => {
    const standing = await store.lockStanding(tx, screen)
    if (!standing) return endings.spent
    const hash = hashOf(token)
    const no = await endingFor(tx, standing, screen, hash)
    // A page that lost its connection just before the desktop fell asleep may wait for it, too.
    if (no?.code === screenCloses.asleep && standing.isHeld && returns(standing, hash)) await store.wait(tx, screen)
    if (no) return no
    const desktop = { id: screen.desktopId, labels: standing.desktop.labels }
    if (!(await principals.standing([standing.holder], tx)).reaches(standing.holder, desktop)) return endings.revoked
    const { generation, hostId } = standing.desktop
    const { token: ticket, hash: ticketHash } = makeToken()
    const sessionId = newId()
    await store.enter(tx, screen, { id: sessionId, generation, ticketHash, previousHash: isPage ? hash : null })
    count(standing.holder)
    return { ...screen, sessionId, generation, hostId: hostId!, ticket }
  })
}

async function endingFor(tx: Db, now: Standing, screen: Screen, hash: Buffer): Promise<Ending | undefined> {
  const asleep = endingOf(now.desktop, now.desktop.generation)
  const isBack = returns(now, hash)
  const token = isBack ? undefined : await store.spendToken(tx, screen, hash)
  // Without a valid token or ticket, a client learns nothing about the claim.
  if (!isBack && !token) return endings.spent
  if (now.expired) return endings.expired
  if (!token) return now.isHeld || now.waits ? asleep : endings.graceOver
  if (token.holdId !== now.holdId) return endings.takenOver
  if (asleep) return asleep
  return token.generation === now.desktop.generation ? undefined : endings.spent
}

/**
 * Whether a page returns with its ticket, which stays valid while the desktop sleeps. Or with what opened the last socket,
 * if the page has not confirmed the next ticket: it may not have arrived.
 */
const returns = ({ ticketHash, previousHash }: Standing, hash: Buffer): boolean =>
  Boolean(ticketHash?.equals(hash) || previousHash?.equals(hash))

// Who uses a screen now, as shown to a client that wants it too.
import { refusals, refuse } from '@dormouse/contract'
import * as activity from '../activity/store.ts'
import type { Db } from '../db/pool.ts'

/** A person whose last input is not older uses the screen now. */
const humanSecs = 15

export async function isHumanActive(db: Db, desktopId: string): Promise<boolean> {
  const at = await activity.lastOf(db, desktopId, 'screen')
  return at !== undefined && Date.now() - at.getTime() < humanSecs * 1_000
}

export async function refuseHeld(
  db: Db,
  desktopId: string,
  held: { holder: string; since: Date | null; until: Date },
): Promise<never> {
  return refuse('claim_held', refusals.claim_held.detail({ claim: 'control', until: held.until.toISOString() }), {
    claim: 'control',
    holder: held.holder,
    human_active: await isHumanActive(db, desktopId),
    ...(held.since && { since: held.since.toISOString() }),
  })
}

// Whether a person uses a screen now, as far as its last input says.
import * as activity from '../activity/store.ts'
import type { Db } from '../db/pool.ts'

/** A person whose last input is not older uses the screen now. */
const humanSecs = 15

export async function isHumanActive(db: Db, desktopId: string): Promise<boolean> {
  const at = await activity.lastOf(db, desktopId, 'screen')
  return at !== undefined && Date.now() - at.getTime() < humanSecs * 1_000
}

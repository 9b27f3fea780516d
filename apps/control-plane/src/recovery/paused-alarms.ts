// Finds desktops that stay paused after a move, because their hosts cannot be told to run them.
import type { Log } from '@dormouse/process'
import type { StandingAlarms } from '../alarms/service.ts'
import type { Pool } from '../db/pool.ts'
import { pausedByMoves } from '../desktops/deferred.ts'

/** What was deferred for less time is usually done by the next attempt. */
const quietMs = 15_000
const what = 'a desktop may be paused since its move, because its host could not be asked to run it'

/** One alarm for each desktop and turn. */
export async function checkPaused({
  pool,
  alarms,
  log,
}: {
  pool: Pool
  alarms: StandingAlarms
  log: Log
}): Promise<void> {
  const paused = await pausedByMoves(pool, quietMs)
  const found = paused.map(({ desktopId, hostId, command, turn, since, error }) => {
    const facts = { command, since, why: error ?? 'the host is unreachable' }
    return { subject: `${desktopId} ${turn}`, hostId, desktopId, what, facts }
  })
  await alarms.are('paused', 'all', found, log)
}

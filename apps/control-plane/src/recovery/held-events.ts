// Raises an alarm if the log of events is held back for long. Knows no event.
import type { Log } from '@dormouse/process'
import type { StandingAlarms } from '../alarms/service.ts'

const longMs = 30_000
const what = 'a transaction has held events back for long; find it in pg_stat_activity by its xact_start, and end it'

export async function checkHeldEvents(
  { alarms, log }: { alarms: StandingAlarms; log: Log },
  heldBackMs: number,
): Promise<void> {
  const facts = { secs: Math.round(heldBackMs / 1_000) }
  const found = [{ subject: 'log', hostId: null, desktopId: null, what, facts }]
  await alarms.are('events', 'log', heldBackMs > longMs ? found : [], log)
}

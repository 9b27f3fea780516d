// What exists of one desktop on this host, and how busy it is.
import { refuse } from '@dormouse/contract'
import type { Activity } from '../desktops/activity.ts'
import { observe as look } from '../desktops/inventory.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { CallsInFlight } from './calls-in-flight.ts'
import type { CommandHandler } from './handler.ts'

interface ObserveDeps {
  calls: CallsInFlight
  activity: Activity
}

export const observe: CommandHandler<'desktop.observe', LookDeps & ObserveDeps> = async (deps, { desktopId }) => {
  const seen = await look(deps, desktopId)
  if (!seen) return refuse('unknown_desktop', 'this host has nothing of that desktop')
  const calls = deps.calls.count(desktopId)
  if (seen.domain !== 'running') return { ...seen, calls }
  return { ...seen, calls, activity: deps.activity.of(desktopId, seen.generation) }
}

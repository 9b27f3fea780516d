// What exists of one desktop on this host, and how busy it is.
import { refuse } from '@dormouse/contract'
import { observe as look } from '../desktops/inventory.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { CallsInFlight } from './calls-in-flight.ts'
import type { CommandHandler } from './handler.ts'

export const observe: CommandHandler<'desktop.observe', LookDeps & { calls: CallsInFlight }> = async (
  deps,
  { desktopId },
) => {
  const seen = await look(deps, desktopId)
  if (!seen) return refuse('unknown_desktop', 'this host has nothing of that desktop')
  return { ...seen, calls: deps.calls.count(desktopId) }
}

// Undoes a wake: nothing of the desktop runs any more.
import { type AsleepDeps, asleep } from '../desktops/asleep.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureAsleep: CommandHandler<'desktop.ensureAsleep', AsleepDeps & TurnDeps> = (deps, { fence }) =>
  deps.turns.run(fence, 'desktop.ensureAsleep', (turn) => asleep(deps, turn), { undoes: true, freesSpace: true })

// Nothing of the desktop is left on the host.
import { type DestroyDeps, destroy } from '../desktops/destroy.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureDestroyed: CommandHandler<'desktop.ensureDestroyed', DestroyDeps & TurnDeps> = (deps, { fence }) =>
  deps.turns.run(fence, 'desktop.ensureDestroyed', (turn) => destroy(deps, turn), { preempts: true, freesSpace: true })

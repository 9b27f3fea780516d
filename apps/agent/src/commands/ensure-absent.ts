// Nothing of the desktop is left on this host, and it may come again in a later turn.
import { absent } from '../desktops/absent.ts'
import type { DestroyDeps } from '../desktops/destroy.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureAbsent: CommandHandler<'desktop.ensureAbsent', DestroyDeps & TurnDeps> = (deps, { fence }) =>
  deps.turns.run(fence, 'desktop.ensureAbsent', (turn) => absent(deps, turn), {
    preempts: true,
    undoes: true,
    freesSpace: true,
  })

// The desktop's memory is saved beside its disk, and nothing runs. With a condition, only if it is idle.
import { hibernate, type SaveDeps } from '../desktops/hibernate.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureHibernated: CommandHandler<'desktop.ensureHibernated', SaveDeps & TurnDeps> = (
  deps,
  { fence, ifIdle },
) => deps.turns.run(fence, 'desktop.ensureHibernated', (turn) => hibernate(deps, turn, ifIdle), { syncsLater: true })

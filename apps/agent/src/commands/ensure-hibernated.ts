// The desktop's memory is saved beside its disk, and nothing runs.
import { hibernate, type SaveDeps } from '../desktops/hibernate.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureHibernated: CommandHandler<'desktop.ensureHibernated', SaveDeps & TurnDeps> = (deps, { fence }) =>
  deps.turns.run(fence, 'desktop.ensureHibernated', (turn) => hibernate(deps, turn), { syncsLater: true })

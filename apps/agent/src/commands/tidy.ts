// The wake has settled: the spent image is removed.
import { type LookDeps, removeSpent } from '../desktops/situation.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const tidy: CommandHandler<'desktop.tidy', LookDeps & TurnDeps> = (deps, { fence }) => {
  const work = async () => {
    await removeSpent(deps, fence.desktopId)
    return {}
  }
  return deps.turns.run(fence, 'desktop.tidy', work, { freesSpace: true })
}

// The desktop runs in this generation, its guest answers, and its clock is right.
import { type WakeDeps, wake } from '../desktops/wake.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

export const ensureAwake: CommandHandler<'desktop.ensureAwake', WakeDeps & TurnDeps> = (deps, command) => {
  const { fence, spec, source } = command
  return deps.turns.run(fence, 'desktop.ensureAwake', (turn) => wake(deps, turn, { spec, source }), {
    syncsLater: true,
  })
}

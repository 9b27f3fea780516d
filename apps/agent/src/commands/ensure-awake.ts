// The desktop runs in this generation, its guest answers, and its clock is right.
import type { Activity } from '../desktops/activity.ts'
import type { Furnishing } from '../desktops/furnishing.ts'
import type { Turn } from '../desktops/turns.ts'
import { type WakeDeps, wake } from '../desktops/wake.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

type Deps = WakeDeps & TurnDeps & { activity: Activity; furnishing: Furnishing }

export const ensureAwake: CommandHandler<'desktop.ensureAwake', Deps> = async (deps, command) => {
  const { fence, spec, source } = command
  const work = async (turn: Turn) => {
    const woken = await wake(deps, turn, { spec, source })
    deps.activity.watch(fence.desktopId)
    return woken
  }
  const woken = await deps.turns.run(fence, 'desktop.ensureAwake', work, { syncsLater: true })
  // Not awaited: the desktop can be used without a network.
  void deps.furnishing.furnish(fence.desktopId)
  return woken
}

// The new host's commands of a move: make ready, take the desktop, and then either let it run or give it up.
import type { Furnishing } from '../desktops/furnishing.ts'
import { arrive, prepare } from '../moves/arrive.ts'
import { abandon, settle } from '../moves/decided.ts'
import type { MoveDeps } from '../moves/held.ts'
import { dialRelay } from './dial-relay.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

type Deps = MoveDeps & TurnDeps

export const movePrepare: CommandHandler<'move.prepare', Deps> = (
  deps,
  { fence, relay, ...request },
  signal,
  dialBack,
) =>
  deps.turns.run(
    fence,
    'move.prepare',
    (turn) => prepare(deps, turn, request, () => dialRelay(relay, dialBack, signal)),
    { moves: true },
  )

export const moveArrive: CommandHandler<'move.arrive', Deps> = (deps, { fence, handoff }) =>
  deps.turns.run(fence, 'move.arrive', (turn) => arrive(deps, turn, handoff), { moves: true })

export const moveSettle: CommandHandler<'move.settle', Deps & { furnishing: Furnishing }> = async (deps, { fence }) => {
  const settled = await deps.turns.run(fence, 'move.settle', (turn) => settle(deps, turn), { moves: true })
  void deps.furnishing.furnish(fence.desktopId)
  return settled
}

export const moveAbandon: CommandHandler<'move.abandon', Deps> = (deps, { fence }) =>
  deps.turns.run(fence, 'move.abandon', (turn) => abandon(deps, turn), { moves: true, undoes: true, freesSpace: true })

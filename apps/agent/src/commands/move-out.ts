// The old host's commands of a move: hold the desktop, send it, and then either remove it or go on with it.
import { release } from '../moves/decided.ts'
import type { MoveDeps } from '../moves/held.ts'
import { begin, keep, send } from '../moves/leave.ts'
import { dialRelay } from './dial-relay.ts'
import type { CommandHandler, TurnDeps } from './handler.ts'

type Deps = MoveDeps & TurnDeps

export const moveBegin: CommandHandler<'move.begin', Deps> = (deps, { fence, kind }) =>
  deps.turns.run(fence, 'move.begin', (turn) => begin(deps, turn, kind), { moves: true })

export const moveSend: CommandHandler<'move.send', Deps> = (deps, { fence, relay, ...request }, signal, dialBack) =>
  deps.turns.run(fence, 'move.send', (turn) => send(deps, turn, request, () => dialRelay(relay, dialBack, signal)), {
    moves: true,
  })

export const moveRelease: CommandHandler<'move.release', Deps> = (deps, { fence, handoff }) =>
  deps.turns.run(fence, 'move.release', (turn) => release(deps, turn, handoff), { moves: true, freesSpace: true })

export const moveKeep: CommandHandler<'move.keep', Deps> = (deps, { fence }) =>
  deps.turns.run(fence, 'move.keep', (turn) => keep(deps, turn), { moves: true, undoes: true, freesSpace: true })

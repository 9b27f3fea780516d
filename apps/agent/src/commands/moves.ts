// The commands of a move. The old host holds the desktop, sends it, and then removes it or goes on with it; the new host makes
// ready, takes it, and then lets it run or gives it up.
import { type CommandName, Refusal, type Relay } from '@dormouse/contract'
import type { Channel } from '@dormouse/link'
import type { Furnishing } from '../desktops/furnishing.ts'
import { arrive, prepare } from '../moves/arrive.ts'
import { abandon, release, settle } from '../moves/decided.ts'
import { check, traits } from '../moves/fitness.ts'
import type { MoveDeps } from '../moves/held.ts'
import { begin, keep, send } from '../moves/leave.ts'
import type { CommandHandler, DialBack, TurnDeps } from './handler.ts'

type Deps = MoveDeps & TurnDeps & { furnishing: Furnishing }
type Handled = Extract<CommandName, `move.${string}`>

export const moveHandlers: { [N in Handled]: CommandHandler<N, Deps> } = {
  /** What another host must have to take it. */
  'move.traits': (deps, { desktopId }) => traits(deps, desktopId),
  /** Whether this host can take it. */
  'move.check': check,

  'move.begin': (deps, { fence, kind }) =>
    deps.turns.run(fence, 'move.begin', (turn) => begin(deps, turn, kind), { moves: true }),
  'move.send': (deps, { fence, relay, ...request }, signal, dialBack) => {
    const relayed = () => dialRelay(relay, dialBack, signal)
    return deps.turns.run(fence, 'move.send', (turn) => send(deps, turn, request, relayed), { moves: true })
  },
  'move.release': (deps, { fence, handoff }) =>
    deps.turns.run(fence, 'move.release', (turn) => release(deps, turn, handoff), { moves: true, freesSpace: true }),
  'move.keep': (deps, { fence }) =>
    deps.turns.run(fence, 'move.keep', (turn) => keep(deps, turn), { moves: true, undoes: true, freesSpace: true }),

  'move.prepare': (deps, { fence, relay, ...request }, signal, dialBack) => {
    const relayed = () => dialRelay(relay, dialBack, signal)
    return deps.turns.run(fence, 'move.prepare', (turn) => prepare(deps, turn, request, relayed), { moves: true })
  },
  'move.arrive': (deps, { fence, handoff }) =>
    deps.turns.run(fence, 'move.arrive', (turn) => arrive(deps, turn, handoff), { moves: true }),
  'move.settle': async (deps, { fence }) => {
    const settled = await deps.turns.run(fence, 'move.settle', (turn) => settle(deps, turn), { moves: true })
    void deps.furnishing.furnish(fence.desktopId)
    return settled
  },
  'move.abandon': (deps, { fence }) =>
    deps.turns.run(fence, 'move.abandon', (turn) => abandon(deps, turn), {
      moves: true,
      undoes: true,
      freesSpace: true,
    }),
}

/** All channels of a relay, in their order; none without a relay. Refuses if one of them cannot be opened. */
async function dialRelay(relay: Relay | undefined, dialBack: DialBack, signal: AbortSignal): Promise<Channel[]> {
  const dialled = await Promise.allSettled((relay?.channels ?? []).map((token) => dialBack(token, signal)))
  const open = dialled.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  const failed = dialled.find((one) => one.status === 'rejected')
  if (!failed) return open
  for (const channel of open) channel.destroy()
  const why = 'the control plane could not be reached for the relay of the move'
  throw Object.assign(new Refusal('hypervisor_failed', why), { cause: failed.reason })
}

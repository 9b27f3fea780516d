// What follows the control plane's decision, in the decision's own turn: the new host lets the desktop run, the old one
// removes it. And the new host's undo of a move that was not decided for it. Each may be repeated after any failure.
import { type CommandResult, refuse } from '@dormouse/contract'
import { removeAll } from '../desktops/destroy.ts'
import { nothingHere } from '../desktops/journal-entry.ts'
import { lookAtRest, markOf } from '../desktops/situation.ts'
import type { Turn } from '../desktops/turns.ts'
import { catchUp } from '../guest/catch-up.ts'
import { heldOut, journalled, type MoveDeps } from './held.ts'

/** The desktop is this host's: a guest that came with its memory runs. */
export async function settle(deps: MoveDeps, turn: Turn): Promise<CommandResult<'move.settle'>> {
  const { desktopId } = turn.fence
  const move = journalled(turn, 'in')
  if (move && move.phase !== 'arrived') refuse('hypervisor_failed', 'the desktop has not arrived whole on this host')
  const { domain, disk, usable } = await lookAtRest(deps, desktopId)
  if (!disk) refuse('disk_missing', 'the desktop’s disk is not on this host')
  if (!domain) {
    // A guest that ended while it was paused has lost its memory.
    await end(deps, turn, false)
    return { state: usable ? 'hibernated' : 'stopped' }
  }
  if (move) {
    await deps.driver.setMark(markOf(deps, turn.fence))
    await deps.driver.setShares(desktopId, turn.entry().spec?.shares)
    await deps.failpoints.hit('move.settle.before-resume')
    if (domain.state === 'paused') await deps.driver.resume(desktopId)
    await deps.failpoints.hit('move.settle.after-resume')
    await end(deps, turn, true)
    await deps.driver.moves.furnish(desktopId).catch((error: unknown) => {
      deps.log.warn({ err: error, desktopId }, 'a desktop that has arrived has no clipboard')
    })
    // Behind it: calls to a guest's agent wait for each other, and the guest takes a moment to answer. Not awaited: the desktop
    // can be used meanwhile.
    void catchUp(deps, desktopId, turn.fence.generation)
  }
  return { state: 'awake' }
}

/** The move is over on this host. */
async function end({ moves, driver }: MoveDeps, turn: Turn, running: boolean): Promise<void> {
  const { desktopId } = turn.fence
  await turn.note({ move: null, running })
  moves.end(desktopId)
  await driver.moves.forget(desktopId)
}

/** Nothing of the desktop is left on the old host. It may come back later. */
export async function release(
  deps: MoveDeps,
  turn: Turn,
  handoff: string | null,
): Promise<CommandResult<'move.release'>> {
  const { desktopId } = turn.fence
  const move = journalled(turn, 'out')
  const held = heldOut(deps, turn)
  const domain = await deps.driver.domain(desktopId)
  if (!move && domain?.state === 'running')
    refuse('hypervisor_failed', 'the desktop runs on this host, and has not left it')
  // From here on nothing resumes it here, also after a restart of the agent.
  if (move) await turn.note({ running: false, move: { ...move, phase: 'left' } })
  await deps.failpoints.hit('move.release.before-remove')
  if (held?.leaving && handoff) {
    await held.leaving.confirm(handoff).catch((error: unknown) => {
      deps.log.info({ err: error, desktopId }, 'a move could not be confirmed; its guest is ended here')
    })
  }
  return leaveNothing(deps, turn)
}

/** The new host gives up what it has of a move that was not decided for it. */
export async function abandon(deps: MoveDeps, turn: Turn): Promise<CommandResult<'move.abandon'>> {
  const move = journalled(turn, 'in')
  const { desktopId } = turn.fence
  const isHere = (await deps.driver.hasDisk(desktopId)) || (await deps.driver.domain(desktopId)) !== undefined
  if (!move && isHere) refuse('hypervisor_failed', 'no move has brought this desktop to this host')
  return leaveNothing(deps, turn)
}

async function leaveNothing(deps: MoveDeps, turn: Turn): Promise<Record<string, never>> {
  const { desktopId } = turn.fence
  deps.moves.end(desktopId)
  await removeAll(deps, desktopId)
  await deps.failpoints.hit('move.after-remove')
  await turn.note({ ...nothingHere, departedAt: turn.entry().departedAt ?? new Date().toISOString() })
  return {}
}

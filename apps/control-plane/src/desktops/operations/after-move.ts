// Sends a command to a host on which an earlier move of the desktop has not ended, because the last command of that move is
// deferred. The deferred command is sent first, so a customer's request never waits for its next attempt.
import { isOvertaken, Refusal } from '@dormouse/contract'
import type { Links } from '../../agents/links.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import type { StepContext } from '../../operations/definition.ts'
import { type DeferredCommand, done, ofMove } from '../deferred.ts'
import { commandOptions } from './fence.ts'

interface AfterMoveContext {
  leadership: Leadership
  links: Links
}

/** Sends the command. If the host refuses with `moving`, ends the earlier move and sends the command again. */
export async function afterMove<T>(
  deps: AfterMoveContext,
  context: StepContext,
  hostId: string,
  ask: () => Promise<T>,
): Promise<T> {
  try {
    return await ask()
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'moving') throw error
    await endMove(deps, context, hostId)
    return await ask()
  }
}

/** Ends an earlier move of the desktop on the host. */
export async function endMove(deps: AfterMoveContext, context: StepContext, hostId: string): Promise<void> {
  const owed = await deps.leadership.transaction((tx) => ofMove(tx, context.operation.desktopId, hostId))
  for (const command of owed) await end(deps, context, command)
}

async function end(
  { leadership, links }: AfterMoveContext,
  context: StepContext,
  owed: DeferredCommand,
): Promise<void> {
  const { desktopId, hostId, command, generation, turn, operationId } = owed
  const { epoch, remainingMs } = context
  const fence = { desktopId, generation, turn, operationId, epoch, deadlineMs: Math.ceil(remainingMs) }
  await links.command(hostId, command, { fence, handoff: null }, commandOptions(context)).catch((error: unknown) => {
    // The deferred commands' own attempt has done it meanwhile.
    if (!isOvertaken(error, 'request')) throw error
  })
  await leadership.transaction((tx) => done(tx, owed))
}

// Sends a command to a host on which an earlier move of the desktop has not ended, because its last command is deferred: that one
// is sent first. So a customer's request never waits for the next attempt.
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

/** Asks again once what the host still waits for is done: by this call, or meanwhile by the deferred commands' own attempt. */
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

/** Ends what an earlier move of the desktop has left on the host. */
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
    // It has been done meanwhile.
    if (!isOvertaken(error, 'request')) throw error
  })
  await leadership.transaction((tx) => done(tx, owed))
}

// Upgrades the agent itself. It is restarted by that, so the command only requests it and returns how far it is.
import type { RootUnit } from '../upgrades/root-unit.ts'
import type { CommandHandler } from './handler.ts'

export const upgrade: CommandHandler<'agent.upgrade', { rootUnit: Pick<RootUnit, 'upgrade'> }> = (
  { rootUnit },
  asked,
) => rootUnit.upgrade(asked)

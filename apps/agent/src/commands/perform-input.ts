// Types and points in the guest of an awake desktop, or stops doing so.
import { requireAwake } from '../desktops/awake-guest.ts'
import type { Journal } from '../desktops/journal.ts'
import type { Inputs } from '../input/inputs.ts'
import type { CommandHandler } from './handler.ts'

interface InputDeps {
  journal: Journal
  inputs: Inputs
}

export const performInput: CommandHandler<'input.perform', InputDeps> = async (deps, command, signal) => {
  requireAwake(deps.journal, command)
  return await deps.inputs.perform(command, signal)
}

export const interruptInput: CommandHandler<'input.interrupt', InputDeps> = async (
  { inputs },
  { desktopId, batchId },
) => {
  inputs.interrupt(desktopId, batchId)
  return {}
}

// Reads and replaces the clipboard of an awake desktop.
import { requireAwake } from '../desktops/awake-guest.ts'
import type { Journal } from '../desktops/journal.ts'
import type { Inputs } from '../input/inputs.ts'
import type { CommandHandler } from './handler.ts'

interface ClipboardDeps {
  journal: Journal
  inputs: Inputs
}

export const readClipboard: CommandHandler<'clipboard.read', ClipboardDeps> = async (deps, request) => {
  requireAwake(deps.journal, request)
  return await deps.inputs.readClipboard(request.desktopId)
}

export const writeClipboard: CommandHandler<'clipboard.write', ClipboardDeps> = async (deps, request) => {
  requireAwake(deps.journal, request)
  await deps.inputs.writeClipboard(request.desktopId, request.text)
  return {}
}

// What exists of one desktop on this host.
import { refuse } from '@dormouse/contract'
import { observe as look } from '../desktops/inventory.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { CommandHandler } from './handler.ts'

export const observe: CommandHandler<'desktop.observe', LookDeps> = async (deps, { desktopId }) =>
  (await look(deps, desktopId)) ?? refuse('unknown_desktop', 'this host has nothing of that desktop')

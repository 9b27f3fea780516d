// One desktop as it truly is on this host.
import { refuse } from '@dormouse/contract'
import { observe as look } from '../desktops/inventory.ts'
import type { CommandHandler } from './room.ts'

export const observe: CommandHandler<'desktop.observe'> = async ({ ground }, { desktopId }) =>
  (await look(ground, desktopId)) ?? refuse('unknown_desktop', 'this host has nothing of that desktop')

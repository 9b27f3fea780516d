// Every desktop of this installation on this host.
import { inventory as list } from '../desktops/inventory.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { CommandHandler } from './handler.ts'

export const inventory: CommandHandler<'host.inventory', LookDeps> = async (deps) => ({ items: await list(deps) })

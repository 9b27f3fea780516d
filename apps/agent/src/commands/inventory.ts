// Everything of this installation on this host.
import { inventory as list } from '../desktops/inventory.ts'
import type { CommandHandler } from './room.ts'

export const inventory: CommandHandler<'host.inventory'> = async ({ ground }) => ({ items: await list(ground) })

// What the leader thinks of this host's items; obeyed where nothing has changed since it saw them.
import { inventory, obeyOrder } from '../desktops/inventory.ts'
import type { CommandHandler } from './room.ts'

export const rejoin: CommandHandler<'host.rejoin'> = async ({ ground, turns }, { epoch, orders }) => {
  await ground.journal.raiseEpoch(epoch)
  await Promise.all(orders.map((order) => obeyOrder(ground, turns, order)))
  return { items: await inventory(ground) }
}

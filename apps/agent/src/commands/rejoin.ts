// Carries out the leader's orders about this host's desktops, each only if nothing has changed since the leader saw it.
import { inventory } from '../desktops/inventory.ts'
import { carryOut, type OrderDeps } from '../desktops/orders.ts'
import type { CommandHandler } from './handler.ts'

export const rejoin: CommandHandler<'host.rejoin', OrderDeps> = async (deps, { epoch, orders }) => {
  await deps.journal.raiseEpoch(epoch)
  await Promise.all(orders.map((order) => carryOut(deps, order)))
  return { items: await inventory(deps) }
}

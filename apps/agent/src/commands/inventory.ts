// Every desktop of this installation on this host, or those that differ from what the leader knows.
import { inventory as list } from '../desktops/inventory.ts'
import { digestsOf, unknownItems } from '../desktops/inventory-digests.ts'
import type { LookDeps } from '../desktops/situation.ts'
import type { CommandHandler } from './handler.ts'

export const inventory: CommandHandler<'host.inventory', LookDeps> = async (deps, { known }) => {
  const items = await list(deps)
  if (!known) return { items }
  const digests = digestsOf(items)
  return { items: unknownItems(items, digests, known), digests }
}

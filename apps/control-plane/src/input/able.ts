// Refuses input and looks at screens if the desktop's host cannot take them.
import { refuse } from '@dormouse/contract'
import type { Links } from '../agents/links.ts'
import type { Pool } from '../db/pool.ts'
import { takesInput } from '../hosts/abilities.ts'

/** Throws if the host is unreachable, or its agent is of a release before input. */
export async function requireInput(pool: Pool, links: Links, hostId: string): Promise<void> {
  if (!links.takesCommands(hostId)) refuse('host_unreachable')
  if (await takesInput(pool, hostId)) return
  refuse('not_implemented', 'the desktop’s host cannot do this before its agent is upgraded; ask the operator')
}

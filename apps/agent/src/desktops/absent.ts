// Decides how a host gives a desktop up that goes on elsewhere: nothing of it is left here, and it may come again.
import { type DestroyDeps, endAndRemove } from './destroy.ts'
import { nothingHere } from './journal-entry.ts'
import type { Turn } from './turns.ts'

/** Removes everything of the desktop. Its journal entry refuses this turn from now on, and accepts a later one. */
export async function absent(deps: DestroyDeps, turn: Turn): Promise<Record<string, never>> {
  await endAndRemove(deps, turn, 'absent')
  await turn.note({ ...nothingHere, departedAt: turn.entry().departedAt ?? new Date().toISOString() })
  return {}
}

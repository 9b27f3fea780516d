// Whether a desktop runs here in the generation that is asked for. Knows only the journal.
import { type DesktopId, refuse } from '@dormouse/contract'
import type { Journal } from '../desktops/journal.ts'

/** Refuses with `not_awake` unless this very generation runs on this host. */
export function requireAwake(journal: Journal, wish: { desktopId: DesktopId; generation: number }): void {
  const entry = journal.read(wish.desktopId)
  if (entry?.running && entry.generation === wish.generation) return
  refuse('not_awake', 'the desktop is not awake on its host in this generation')
}

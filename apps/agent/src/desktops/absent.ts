// Decides how a host gives a desktop up that goes on elsewhere: nothing of it is left here, and it may come again.
import { before } from '../mechanics/deadlines.ts'
import { type DestroyDeps, removeAll } from './destroy.ts'
import type { Note } from './journal-entry.ts'
import { reportPhase } from './report.ts'
import type { Turn } from './turns.ts'

/** How long earlier work may take to notice that it was ended, before its files are removed. */
const earlierWorkMs = 30_000
const nothing: Note = { move: null, running: false, spent: [], disk: 'none', spec: null, ready: false }

/** Removes everything of the desktop. Its journal entry refuses this turn from now on, and accepts a later one. */
export async function absent(deps: DestroyDeps, turn: Turn): Promise<Record<string, never>> {
  const { desktopId } = turn.fence
  reportPhase(deps.report, turn.fence, 'removing')
  deps.moves.end(desktopId)
  await deps.driver.abortJob(desktopId)
  await deps.driver.kill(desktopId)
  await before(performance.now() + earlierWorkMs, turn.earlier)
  await deps.failpoints.hit('absent.after-kill')
  await removeAll(deps, desktopId)
  await turn.note({ ...nothing, departedAt: turn.entry().departedAt ?? new Date().toISOString() })
  return {}
}

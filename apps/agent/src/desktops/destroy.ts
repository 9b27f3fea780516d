// Decides how everything of a desktop goes. It waits for nobody: what is under way is ended, and says `superseded`.
import type { DesktopId } from '@dormouse/contract'
import type { Ground } from './ground.ts'
import type { Note } from './journal.ts'
import type { Turn } from './turns.ts'

/** How long earlier work may take to notice that it was ended, before its remains are removed under it. */
const patienceMs = 30_000

/** Nothing of the desktop is left on the host; its journal stays as a tombstone. */
export async function destroy(on: Ground, turn: Turn): Promise<Record<string, never>> {
  const { desktopId, operationId } = turn.fence
  on.say('operation.progress', { desktopId, operationId, phase: 'removing', doneBytes: null, totalBytes: null })
  await on.driver.abortJob(desktopId)
  await on.driver.kill(desktopId)
  await within(turn.earlier, patienceMs)
  await on.failpoints.hit('destroy.after-kill')
  await removeAll(on, desktopId)
  await turn.note({ destroyedAt: turn.entry().destroyedAt ?? new Date().toISOString(), ...nothing })
  return {}
}

const nothing: Note = { running: false, spent: [], disk: 'none', spec: null }

/** Process first, then disk and memory; what earlier work started last is ended too. */
export async function removeAll(on: Ground, desktopId: DesktopId): Promise<void> {
  await on.digests.stop(desktopId)
  await on.driver.kill(desktopId)
  await on.driver.removeDisk(desktopId)
  await on.memory.removeAll(desktopId)
}

async function within(work: Promise<unknown>, limitMs: number): Promise<void> {
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, limitMs)
  await Promise.race([work, late])
  clearTimeout(timer)
}

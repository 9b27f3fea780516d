// Decides how everything of a desktop is removed. A destroy does not wait for work in progress: that ends as `superseded`.
import type { DesktopId } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Guests } from '../driver/guest-transport.ts'
import { before } from '../mechanics/deadlines.ts'
import type { Digests } from './digests.ts'
import type { Figures } from './figures.ts'
import type { HeldMoves } from './held-moves.ts'
import { nothingHere } from './journal-entry.ts'
import type { MemoryImages } from './memory-images.ts'
import { reportPhase, type SendReport } from './report.ts'
import type { Turn } from './turns.ts'

export interface RemoveDeps {
  driver: Driver
  guests: Guests
  memory: MemoryImages
  digests: Digests
  figures: Pick<Figures, 'remove'>
}

export interface DestroyDeps extends RemoveDeps {
  moves: Pick<HeldMoves, 'end'>
  report: SendReport
  failpoints: Failpoints
}

/** How long earlier work may take to notice that it was ended, before its files are removed. */
const earlierWorkMs = 30_000

/** Removes everything of the desktop from the host; its journal entry stays as a tombstone. */
export async function destroy(deps: DestroyDeps, turn: Turn): Promise<Record<string, never>> {
  await endAndRemove(deps, turn, 'destroy')
  await turn.note({ ...nothingHere, destroyedAt: turn.entry().destroyedAt ?? new Date().toISOString() })
  return {}
}

/** Ends whatever is in progress for the desktop, and then removes everything of it. */
export async function endAndRemove(deps: DestroyDeps, turn: Turn, command: 'destroy' | 'absent'): Promise<void> {
  const { desktopId } = turn.fence
  reportPhase(deps.report, turn.fence, 'removing')
  deps.moves.end(desktopId)
  await deps.driver.abortJob(desktopId)
  await deps.driver.kill(desktopId)
  await before(performance.now() + earlierWorkMs, turn.earlier)
  await deps.failpoints.hit(`${command}.after-kill`)
  await removeAll(deps, desktopId)
}

/** Ends the process, which earlier work may have started again, then removes the disk and the saved memory. */
export async function removeAll(deps: RemoveDeps, desktopId: DesktopId): Promise<void> {
  const { driver, guests, memory, digests, figures } = deps
  await digests.stop(desktopId)
  await driver.kill(desktopId)
  await driver.removeDisk(desktopId)
  await guests.forget(desktopId)
  await memory.removeAll(desktopId)
  await figures.remove(desktopId)
}

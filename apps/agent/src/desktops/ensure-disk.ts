// Decides whether a desktop's disk may be made. A disk holds its owner's work: only a destroy removes it.
import { type CommandPayload, refuse } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Guests } from '../guest/guests.ts'
import { reportPhase, type SendReport } from './report.ts'
import type { Turn } from './turns.ts'

export interface DiskDeps {
  driver: Pick<Driver, 'hasDisk' | 'makeDisk' | 'removeDisk'>
  guests: Guests
  report: SendReport
  failpoints: Failpoints
}

type DiskRequest = Pick<CommandPayload<'desktop.ensureDisk'>, 'spec' | 'disk'>

/** Makes the disk unless it exists; returns whether it was made in this turn. `disk_missing` where it is required. */
export async function ensureDisk(deps: DiskDeps, turn: Turn, { spec, disk }: DiskRequest): Promise<{ made: boolean }> {
  const { desktopId } = turn.fence
  const { diskMade, disk: known, spec: noted } = turn.entry()
  const exists = await deps.driver.hasDisk(desktopId)
  const halfMade = exists && known === 'making'
  if (exists && !halfMade) {
    if (!noted) await turn.note({ spec })
    return { made: diskMade }
  }
  if (disk === 'require') refuse('disk_missing', 'the desktop’s disk is no longer on its host')
  await turn.synced()
  if (halfMade) {
    await deps.driver.removeDisk(desktopId)
    await deps.guests.forget(desktopId)
  }
  return make(deps, turn, spec)
}

async function make(deps: DiskDeps, turn: Turn, spec: DiskRequest['spec']): Promise<{ made: boolean }> {
  reportPhase(deps.report, turn.fence, 'disk')
  await turn.note({ spec, disk: 'making' })
  await deps.driver.makeDisk(turn.fence.desktopId, spec)
  await deps.failpoints.hit('disk.after-make')
  turn.signal.throwIfAborted()
  await turn.note({ disk: 'fresh', diskMade: true })
  return { made: true }
}

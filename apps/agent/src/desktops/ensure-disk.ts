// Decides whether a desktop's disk may be made. A disk holds its owner's work: only a destroy removes it.
import { type CommandPayload, refuse } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { Guests } from '../driver/guest-transport.ts'
import type { ImageFetcher } from '../images/fetcher.ts'
import { FetchReports } from './fetch-reports.ts'
import { reportPhase, type SendReport } from './report.ts'
import type { Turn } from './turns.ts'

export interface DiskDeps {
  driver: Pick<Driver, 'hasDisk' | 'makeDisk' | 'removeDisk'>
  fetcher: Pick<ImageFetcher, 'having'>
  guests: Guests
  report: SendReport
  failpoints: Failpoints
}

type DiskRequest = Pick<CommandPayload<'desktop.ensureDisk'>, 'spec' | 'disk' | 'image'>

/** Makes the disk unless it exists; returns whether it was made in this turn. `disk_missing` if it is required. */
export async function ensureDisk(
  deps: DiskDeps,
  turn: Turn,
  { spec, disk, image }: DiskRequest,
): Promise<{ made: boolean }> {
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
  if (!image) return make(deps, turn, spec)
  const reports = new FetchReports(deps.report, turn.fence)
  return deps.fetcher.having(image, turn.signal, reports.progress, () => make(deps, turn, spec, image.digest))
}

async function make(
  deps: DiskDeps,
  turn: Turn,
  spec: DiskRequest['spec'],
  manifestDigest?: string,
): Promise<{ made: boolean }> {
  turn.signal.throwIfAborted()
  reportPhase(deps.report, turn.fence, 'disk')
  await turn.note({ spec, disk: 'making', departedAt: null })
  await deps.driver.makeDisk(turn.fence.desktopId, spec, manifestDigest)
  await deps.failpoints.hit('disk.after-make')
  turn.signal.throwIfAborted()
  await turn.note({ disk: 'fresh', diskMade: true })
  return { made: true }
}

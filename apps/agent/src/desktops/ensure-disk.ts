// Decides whether a desktop's disk may be made. A disk holds its owner's work: only a destroy removes one.
import { type CommandPayload, refuse } from '@dormouse/contract'
import type { Ground } from './ground.ts'
import type { Turn } from './turns.ts'

type Wish = Pick<CommandPayload<'desktop.ensureDisk'>, 'spec' | 'disk'>

/** The disk is there. `disk_missing` where it must have been; answers whether it was made in this turn. */
export async function ensureDisk(on: Ground, turn: Turn, { spec, disk }: Wish): Promise<{ made: boolean }> {
  const { desktopId } = turn.fence
  const { diskMade, disk: known, spec: noted } = turn.entry()
  const there = await on.driver.hasDisk(desktopId)
  const halfMade = there && known === 'making'
  if (there && !halfMade) {
    if (!noted) await turn.note({ spec })
    return { made: diskMade }
  }
  if (disk === 'require') refuse('disk_missing', 'the desktop’s disk is not on its host any more')
  if (halfMade) await on.driver.removeDisk(desktopId)
  return make(on, turn, spec)
}

async function make(on: Ground, turn: Turn, spec: Wish['spec']): Promise<{ made: boolean }> {
  const { desktopId, operationId } = turn.fence
  on.say('operation.progress', { desktopId, operationId, phase: 'disk', doneBytes: null, totalBytes: null })
  await turn.note({ spec, disk: 'making' })
  await on.driver.makeDisk(desktopId, spec)
  await on.failpoints.hit('disk.after-make')
  turn.signal.throwIfAborted()
  await turn.note({ disk: 'fresh', diskMade: true })
  return { made: true }
}

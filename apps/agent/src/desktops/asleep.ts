// Decides how a wake is undone. An unspent image is kept; a guest that has run is saved again. Only if that is
// impossible is the guest stopped, and the result says what was lost.
import { type CommandResult, Refusal } from '@dormouse/contract'
import { emptyUnidentified } from './first-wake.ts'
import { alreadySaved, type SaveDeps, save } from './hibernate.ts'
import { holdsMemory, lookAtRest, neverRan, type Situation } from './situation.ts'
import { diskGiBOf } from './sizes.ts'
import type { Turn } from './turns.ts'

export type AsleepDeps = SaveDeps

type Result = CommandResult<'desktop.ensureAsleep'>

/** Ends what runs; returns the state that is then true. */
export async function asleep(deps: AsleepDeps, turn: Turn): Promise<Result> {
  await deps.digests.stop(turn.fence.desktopId)
  await emptyUnidentified(deps, turn)
  const now = await lookAtRest(deps, turn.fence.desktopId)
  const hasRun = holdsMemory(now) && !neverRan(now)
  const result = hasRun ? await saveOrStop(deps, turn, now) : await keepSaved(deps, turn, now)
  await turn.note({ running: false })
  return { ...result, ...(await sizeAsleep(deps, turn, result)) }
}

/** Its saved memory has the size that its guest had. Absent if that is unknown, which prevents no undo. */
async function sizeAsleep({ driver, memory, log }: AsleepDeps, turn: Turn, { state }: Result) {
  const { desktopId } = turn.fence
  const guest = state === 'hibernated' ? memory.list(desktopId)[0]?.manifest.guest : turn.entry().spec
  if (state === 'absent' || !guest) return {}
  try {
    const { vcpus, memoryMiB } = guest
    return { size: { vcpus, memoryMiB, diskGiB: await diskGiBOf({ driver }, turn) } }
  } catch (err) {
    log.warn({ err, desktopId }, 'the size of a disk could not be read')
    return {}
  }
}

/** No guest has run, or none runs any more. */
async function keepSaved(deps: AsleepDeps, turn: Turn, now: Situation): Promise<Result> {
  if (now.usable) {
    await alreadySaved(deps, turn, now)
    return { state: 'hibernated', memoryLost: false }
  }
  if (now.domain) await deps.driver.kill(turn.fence.desktopId)
  const { wokeFrom, memoryLost } = turn.entry()
  return { state: now.disk ? 'stopped' : 'absent', memoryLost: memoryLost || wokeFrom === 'memory' }
}

/** A guest that was booted from its disk and never answered has nothing to lose, and would be as silent after a restore. */
async function saveOrStop(deps: AsleepDeps, turn: Turn, now: Situation): Promise<Result> {
  const { wokeFrom } = turn.entry()
  const silentBoot = (wokeFrom === 'disk' || wokeFrom === 'image') && !(await answers(deps, turn))
  if (!silentBoot) {
    try {
      await save(deps, turn, now)
      return { state: 'hibernated', memoryLost: false }
    } catch (error) {
      throwUnlessRefusedByHypervisor(error)
      deps.log.warn(
        { err: error, desktopId: turn.fence.desktopId },
        'a wake could not be undone by a save; stopping it',
      )
    }
  }
  await turn.note({ memoryLost: !silentBoot })
  await deps.driver.kill(turn.fence.desktopId)
  return { state: 'stopped', memoryLost: !silentBoot }
}

/** Only the hypervisor's own refusal may cost a memory. A full disk or a lost daemon may pass, and the save is retried. */
function throwUnlessRefusedByHypervisor(error: unknown): void {
  if (!(error instanceof Refusal) || error.code !== 'hypervisor_failed') throw error
}

async function answers({ guests }: AsleepDeps, turn: Turn): Promise<boolean> {
  try {
    await guests.guest(turn.fence.desktopId).ping()
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

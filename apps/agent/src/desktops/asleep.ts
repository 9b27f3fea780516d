// Decides how a wake is taken back. An unspent image is kept; a guest that has run is saved anew; only where that
// cannot be is it stopped, and the answer says what was lost.
import { type CommandResult, Refusal } from '@dormouse/contract'
import type { Ground } from './ground.ts'
import { alreadySaved, save } from './hibernate.ts'
import { holdsMemory, lookAtRest, neverRan, type Situation } from './situation.ts'
import type { Turn } from './turns.ts'

type Answer = CommandResult<'desktop.ensureAsleep'>

/** Nothing runs; answers the state that is then true. */
export async function asleep(on: Ground, turn: Turn): Promise<Answer> {
  await on.digests.stop(turn.fence.desktopId)
  const now = await lookAtRest(on, turn.fence.desktopId)
  const answer = holdsMemory(now) && !neverRan(now) ? await putToSleep(on, turn) : await leave(on, turn, now)
  await turn.note({ running: false })
  return answer
}

/** Nothing has run, or nothing runs any more. */
async function leave(on: Ground, turn: Turn, now: Situation): Promise<Answer> {
  if (now.usable) {
    await alreadySaved(on, turn, now)
    return { state: 'hibernated', memoryLost: false }
  }
  if (now.domain) await on.driver.kill(turn.fence.desktopId)
  const { wokeFrom, memoryLost } = turn.entry()
  return { state: now.disk ? 'stopped' : 'absent', memoryLost: memoryLost || wokeFrom === 'memory' }
}

/** A guest booted from its disk that never answered has nothing to lose, and would wake as silent as it slept. */
async function putToSleep(on: Ground, turn: Turn): Promise<Answer> {
  const { wokeFrom } = turn.entry()
  const silentBoot = (wokeFrom === 'disk' || wokeFrom === 'image') && !(await answers(on, turn))
  if (!silentBoot) {
    try {
      await save(on, turn)
      return { state: 'hibernated', memoryLost: false }
    } catch (error) {
      mayOnlyBeRefused(error)
      on.log.warn({ err: error, desktopId: turn.fence.desktopId }, 'a wake could not be saved anew; stopping it')
    }
  }
  await turn.note({ memoryLost: !silentBoot })
  await on.driver.kill(turn.fence.desktopId)
  return { state: 'stopped', memoryLost: !silentBoot }
}

/** Only the hypervisor's own refusal is worth a memory: a full disk or a lost daemon may pass, and is asked again. */
function mayOnlyBeRefused(error: unknown): void {
  if (!(error instanceof Refusal) || error.code !== 'hypervisor_failed') throw error
}

async function answers(on: Ground, turn: Turn): Promise<boolean> {
  try {
    await on.driver.guest(turn.fence.desktopId).ping()
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

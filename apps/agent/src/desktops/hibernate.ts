// Decides how a running desktop is put to sleep with its memory. The one path for every hibernation, also for the undo
// of a wake: the manifest says what is intended before a byte is written, and that it is whole only after it is synced.
import { type CommandResult, Refusal, refuse } from '@dormouse/contract'
import type { Ground } from './ground.ts'
import type { MemoryImage } from './memory-images.ts'
import {
  finished,
  holdsMemory,
  look,
  lookAtRest,
  markOf,
  neverRan,
  removeOlder,
  removeVoid,
  type Situation,
} from './situation.ts'
import type { Turn } from './turns.ts'

const progressEveryMs = 500

/** Memory and disk are saved as they belong together, and nothing runs. */
export async function hibernate(on: Ground, turn: Turn): Promise<CommandResult<'desktop.ensureHibernated'>> {
  await on.digests.stop(turn.fence.desktopId)
  const now = await lookAtRest(on, turn.fence.desktopId)
  const image = holdsMemory(now) && !neverRan(now) ? await save(on, turn) : await alreadySaved(on, turn, now)
  return { memoryBytes: image.bytes ?? 0 }
}

/** Nothing has run since it was saved: what lies there is the answer. */
export async function alreadySaved(on: Ground, turn: Turn, now: Situation): Promise<MemoryImage> {
  if (!now.usable) refuse('memory_lost', 'the desktop does not run any more, and no memory of it was saved')
  if (now.domain) await on.driver.kill(turn.fence.desktopId)
  return settle(on, turn, await finished(on, now.usable))
}

/** Saves what the domain holds; where that fails the guest goes on, and nothing half-written is left. */
export async function save(on: Ground, turn: Turn): Promise<MemoryImage> {
  const { fence } = turn
  // Marked first: what cannot be marked does not live, and then the image may be all there is of it.
  await on.driver.setMark(markOf(on, fence))
  await removeVoid(on, fence.desktopId)
  const { spec } = turn.entry()
  return on.slots.run(turn.signal, () =>
    on.memory.withRoomFor(spec?.memoryMiB ?? 0, async () => {
      const image = await on.memory.intend(fence, await on.driver.savedBy(fence.desktopId), spec?.imageVersion ?? null)
      await on.failpoints.hit('hibernate.before-save')
      turn.signal.throwIfAborted()
      await write(on, turn, image)
      await on.failpoints.hit('hibernate.after-save')
      return settle(on, turn, await complete(on, image))
    }),
  )
}

async function write(on: Ground, turn: Turn, image: MemoryImage): Promise<void> {
  const { desktopId, operationId } = turn.fence
  let said = 0
  try {
    await on.driver.save(desktopId, image.path, (doneBytes, totalBytes) => {
      if (performance.now() - said < progressEveryMs) return
      said = performance.now()
      on.say('operation.progress', { desktopId, operationId, phase: 'saving', doneBytes, totalBytes })
    })
  } catch (error) {
    await goOn(on, turn, image)
    throw error instanceof Refusal ? error : new Error('the memory could not be saved', { cause: error })
  }
}

/** The file is whole and nothing runs: a disk too full for the manifest's last word changes nothing of that. */
async function complete(on: Ground, image: MemoryImage): Promise<MemoryImage> {
  try {
    return await on.memory.complete(image)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    on.log.warn({ err: error, image: image.file }, 'a manifest could not be completed; the image is whole')
    return image
  }
}

/** After a failed save: the guest runs on as if nothing had been asked. Where a whole image lies there, it is kept. */
async function goOn(on: Ground, turn: Turn, image: MemoryImage): Promise<void> {
  if (turn.signal.aborted) return
  const { domain } = await look(on, turn.fence.desktopId)
  if (!domain) return
  await on.memory.remove(image)
  if (domain.state === 'paused') await on.driver.resume(turn.fence.desktopId)
}

/** The image is the desktop's memory now; older ones are worthless since its guest ran. */
async function settle(on: Ground, turn: Turn, image: MemoryImage): Promise<MemoryImage> {
  const { desktopId } = turn.fence
  await on.failpoints.hit('hibernate.before-complete')
  await turn.note({ running: false, wokeFrom: null, memoryLost: false, spent: [] })
  await removeOlder(on, image)
  on.digests.begin(desktopId, image.file)
  return image
}

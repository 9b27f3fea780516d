// Decides how a running desktop is saved with its memory. Every hibernation and the undo of a wake take this one path: the
// manifest says what is intended before a byte is written, and that the file is whole only after it is synced.
import { type CommandResult, type IdleCondition, Refusal, refuse } from '@dormouse/contract'
import type { Semaphore } from '@dormouse/process'
import { type Failpoints, type Log, together } from '@dormouse/process'
import type { SaveProgress } from '../driver/driver.ts'
import type { Guests } from '../driver/guest-transport.ts'
import { untilAnswers } from '../guest/ready.ts'
import type { Inputs } from '../input/inputs.ts'
import type { Activity } from './activity.ts'
import type { Digests } from './digests.ts'
import { emptyUnidentified, type UnidentifiedDeps } from './first-wake.ts'
import type { MemoryImage } from './memory-images.ts'
import type { SendReport } from './report.ts'
import {
  finished,
  holdsMemory,
  isWarm,
  look,
  lookAtRest,
  markOf,
  neverRan,
  removeOlder,
  removeVoid,
  type Situation,
} from './situation.ts'
import type { Turn } from './turns.ts'
import type { WarmCopies } from './warm-copies.ts'

export interface SaveDeps extends UnidentifiedDeps {
  installationId: string
  digests: Digests
  activity: Activity
  guests: Guests
  inputs: Pick<Inputs, 'hold'>
  warm: Pick<WarmCopies, 'mayKeep' | 'keep'>
  /** Limits the boots, restores and saves that run at once. */
  slots: Semaphore
  report: SendReport
  failpoints: Failpoints
  log: Log
}

const progressEveryMs = 500
/** A fast save reports no progress: its result comes as soon. */
const firstProgressMs = 100
/** For a guest that has suspended itself. */
const guestWakesMs = 10_000

/**
 * Saves the memory, so that it belongs to the disk as it is. The process ends, or stays as a warm copy. With a condition, it
 * refuses with `not_idle` and changes nothing if the guest runs and is in use.
 */
export async function hibernate(
  deps: SaveDeps,
  turn: Turn,
  ifIdle?: IdleCondition,
): Promise<CommandResult<'desktop.ensureHibernated'>> {
  const { desktopId } = turn.fence
  await deps.digests.stop(desktopId)
  await emptyUnidentified(deps, turn)
  const now = await lookAtRest(deps, desktopId)
  const runs = holdsMemory(now) && !neverRan(now)
  using _held = runs && ifIdle ? deps.activity.hold(desktopId, ifIdle) : undefined
  if (now.domain?.pause === 'suspended') await wakeGuest(deps, turn)
  const image = runs ? await save(deps, turn, now, { warm: true }) : await alreadySaved(deps, turn, now)
  return { memoryBytes: image.bytes ?? 0 }
}

/** A guest that has suspended itself is saved awake, as any other: then it answers at once when it is restored. */
async function wakeGuest(deps: SaveDeps, turn: Turn): Promise<void> {
  const { driver, log } = deps
  const { desktopId } = turn.fence
  try {
    await driver.resume(desktopId)
    await untilAnswers(deps, desktopId, guestWakesMs, turn.signal)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    turn.signal.throwIfAborted()
    log.warn({ err: error, desktopId }, 'a guest that has suspended itself did not wake; it is saved as it is')
  }
}

/** Nothing has run since the memory was saved, so the saved memory is the result. */
export async function alreadySaved(deps: SaveDeps, turn: Turn, now: Situation): Promise<MemoryImage> {
  if (!now.usable) refuse('memory_lost', 'the desktop does not run any more, and no memory of it was saved')
  if (now.domain && !isWarm(now)) await deps.driver.kill(turn.fence.desktopId)
  return settle(deps, turn, await finished(deps, now.usable))
}

/**
 * Saves what the domain holds. If that fails, the guest runs on and no partial file is left. With `warm`, its process may stay
 * as a copy of the file.
 */
export async function save(deps: SaveDeps, turn: Turn, now: Situation, { warm = false } = {}): Promise<MemoryImage> {
  const { fence } = turn
  // A key that is held while the memory is saved would still be held when it is restored.
  using _released = await deps.inputs.hold(fence.desktopId, 'the desktop is about to hibernate')
  // The mark comes first: a domain that cannot be marked does not exist, and the image may then be its only memory.
  await deps.driver.setMark(markOf(deps, fence))
  await removeVoid(deps, now)
  const { spec } = turn.entry()
  const memoryMiB = spec?.memoryMiB ?? 0
  const saving = async () => {
    const savedBy = await deps.driver.savedBy(fence.desktopId)
    const image = await deps.memory.intend(fence, savedBy, spec)
    await deps.failpoints.hit('hibernate.before-save')
    turn.signal.throwIfAborted()
    const kept = await write(deps, turn, image, warm && deps.warm.mayKeep(memoryMiB))
    await deps.failpoints.hit('hibernate.after-save')
    const [saved] = await together([complete(deps, image), turn.synced()])
    if (kept) await deps.warm.keep(fence.desktopId, memoryMiB)
    return settle(deps, turn, saved)
  }
  return await deps.slots.run(() => deps.memory.withSpaceFor(memoryMiB, saving), { signal: turn.signal })
}

/** Returns whether the process stays as a copy. */
async function write(deps: SaveDeps, turn: Turn, image: MemoryImage, warm: boolean): Promise<boolean> {
  const { driver } = deps
  const { desktopId, operationId } = turn.fence
  let reportedAt = performance.now() + firstProgressMs - progressEveryMs
  const progress: SaveProgress = (doneBytes, totalBytes) => {
    if (performance.now() - reportedAt < progressEveryMs) return
    reportedAt = performance.now()
    deps.report('operation.progress', { desktopId, operationId, phase: 'saving', doneBytes, totalBytes })
  }
  try {
    if (warm && (await saveAndKeep(deps, turn, image, progress))) return true
    await driver.save(desktopId, image.path, progress)
    return false
  } catch (error) {
    await resumeAfterFailure(deps, turn, image)
    throw error instanceof Refusal ? error : new Error('the memory could not be saved', { cause: error })
  }
}

/** If the hypervisor cannot do that, the guest runs on to be saved without a copy. */
async function saveAndKeep(
  deps: SaveDeps,
  turn: Turn,
  { path }: MemoryImage,
  progress: SaveProgress,
): Promise<boolean> {
  const { driver, log } = deps
  const { desktopId } = turn.fence
  try {
    await driver.saveAndKeep(desktopId, path, progress)
    return true
  } catch (error) {
    if (!(error instanceof Refusal) || error.code !== 'hypervisor_failed') throw error
    turn.signal.throwIfAborted()
    log.warn({ err: error, desktopId }, 'a desktop could not be saved with a warm copy; it is saved without one')
    if ((await driver.domain(desktopId))?.state === 'paused') await driver.resumeKept(desktopId)
    return false
  }
}

/** The file is whole and nothing runs. A disk too full for the manifest's last state changes nothing about that. */
async function complete({ memory, log }: SaveDeps, image: MemoryImage): Promise<MemoryImage> {
  try {
    return await memory.complete(image)
  } catch (error) {
    if (!(error instanceof Refusal)) throw error
    log.warn({ err: error, image: image.file }, 'a manifest could not be completed; the image is whole')
    return image
  }
}

/** After a failed save the guest runs on as before. A file that is whole, with no domain beside it, is kept. */
async function resumeAfterFailure(deps: SaveDeps, turn: Turn, image: MemoryImage): Promise<void> {
  if (turn.signal.aborted) return
  const { domain } = await look(deps, turn.fence.desktopId)
  if (!domain) return
  await deps.memory.remove(image)
  if (domain.state === 'paused') await deps.driver.resumeKept(turn.fence.desktopId)
}

/** The image is the desktop's memory now. Older images are worthless, because the guest has run since. */
async function settle(deps: SaveDeps, turn: Turn, image: MemoryImage): Promise<MemoryImage> {
  await turn.synced()
  await deps.failpoints.hit('hibernate.before-complete')
  // Not synced: what this resets is not looked at while the newest image is whole.
  await turn.note({ running: false, wokeFrom: null, memoryLost: false, spent: [] }, { unsynced: true })
  await removeOlder(deps, image)
  deps.digests.begin(turn.fence.desktopId, image.file)
  return image
}

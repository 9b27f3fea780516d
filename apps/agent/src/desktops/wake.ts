// Decides how a desktop comes to run, and what it came from. A saved memory is restored paused, marked spent, and only
// then run: on either side of that mark a failure leaves memory and disk as they belong together.
import { type CommandPayload, type CommandResult, type ResumedFrom, refuse } from '@dormouse/contract'
import { becomesReady, untilAnswers } from '../guest/ready.ts'
import { ensureDisk } from './ensure-disk.ts'
import type { Ground } from './ground.ts'
import type { MemoryImage } from './memory-images.ts'
import { finished, holdsMemory, lookAtRest, markOf, neverRan, type Situation, spendAll } from './situation.ts'
import type { Turn } from './turns.ts'

type Wish = Omit<CommandPayload<'desktop.ensureAwake'>, 'fence'>

/** What is left of the asker's time for telling it the outcome. */
const shareOfDeadline = 0.9

/** The desktop runs, its guest answers and its clock is right; says what it came from, and whether it is ready. */
export async function wake(on: Ground, turn: Turn, wish: Wish): Promise<CommandResult<'desktop.ensureAwake'>> {
  const { desktopId, deadlineMs } = turn.fence
  const until = performance.now() + deadlineMs * shareOfDeadline
  await on.digests.stop(desktopId)
  const now = await lookAtRest(on, desktopId)
  const resumedFrom = holdsMemory(now) && !neverRan(now) ? await adopt(on, turn, now) : await begin(on, turn, wish, now)
  progress(on, turn, 'waiting-for-guest')
  await untilAnswers(on.driver, desktopId, until - performance.now(), turn.signal).catch((error) =>
    why(on, turn, error),
  )
  return { resumedFrom, ready: await isReady(on, turn, resumedFrom, until) }
}

/**
 * Whether what its image calls ready has come true since the guest was booted: a boot waits for it as long as there is time.
 * A memory that comes back waits for nothing; where it was saved before that, it is asked once.
 */
async function isReady(on: Ground, turn: Turn, resumedFrom: ResumedFrom, until: number): Promise<boolean> {
  const { desktopId } = turn.fence
  const readiness = turn.entry().ready ? undefined : await on.driver.readiness(desktopId)
  if (!readiness) return true
  const tries = resumedFrom === 'memory' ? 1 : Infinity
  const ready = await becomesReady(on.driver, { ...turn.fence, ...readiness, tries, until }, turn.signal).catch(
    (error) => why(on, turn, error),
  )
  if (ready) await turn.note({ ready })
  return ready
}

/** A guest that a full disk has stopped is silent for that reason. */
async function why(on: Ground, turn: Turn, error: unknown): Promise<never> {
  const domain = await on.driver.domain(turn.fence.desktopId)
  if (domain?.outOfSpace)
    refuse('host_disk_full', 'the host’s disk is full, and the guest was paused; nothing was lost')
  throw error
}

/** It ran before, by an earlier command or turn: nothing it holds is thrown away. */
async function adopt(on: Ground, turn: Turn, { domain }: Situation): Promise<ResumedFrom> {
  const wokeFrom = turn.entry().wokeFrom ?? 'memory'
  await spendAll(on, turn, { wokeFrom, running: true, disk: 'used' })
  await on.driver.setMark(markOf(on, turn.fence))
  if (domain?.state === 'paused') await on.driver.resume(turn.fence.desktopId)
  return wokeFrom
}

async function begin(on: Ground, turn: Turn, wish: Wish, now: Situation): Promise<ResumedFrom> {
  const { desktopId } = turn.fence
  if (now.domain) await on.driver.kill(desktopId)
  const chosen = choose(turn, wish.source.memory, now)
  const image = chosen && (await finished(on, chosen))
  if (image) on.memory.verify(image)
  // Old memory over a fresh disk would tear it: where memory is restored, its disk must be there.
  await ensureDisk(on, turn, { spec: wish.spec, disk: image ? 'require' : wish.source.disk })
  await turn.note({ spec: wish.spec })
  if (!image) return on.slots.run(turn.signal, () => boot(on, turn, wish))
  return on.slots.run(turn.signal, () => restore(on, turn, image))
}

/** The image to restore, undefined to boot from disk, or a refusal: memory is never given up unasked. */
function choose(turn: Turn, wish: Wish['source']['memory'], { usable, memory }: Situation): MemoryImage | undefined {
  if (wish === 'discard') return undefined
  if (usable) return usable
  const remedy = 'wake with discard_memory to boot from disk'
  if (turn.entry().wokeFrom === 'memory') {
    refuse(
      'memory_lost',
      `the guest ran on after its memory was restored, and ended before the wake was done; ${remedy}`,
    )
  }
  if (wish === 'allow') return undefined
  if (memory === 'partial') refuse('memory_image_damaged', `the saved memory was never written whole; ${remedy}`)
  if (memory === 'spent')
    refuse('memory_lost', `the saved memory was used before and must not be used again; ${remedy}`)
  return refuse('memory_image_missing', `the saved memory is not where it was left; ${remedy}`)
}

async function restore(on: Ground, turn: Turn, image: MemoryImage): Promise<ResumedFrom> {
  const { desktopId } = turn.fence
  progress(on, turn, 'restoring')
  try {
    await restoreAndCompare(on, turn, image)
    await on.failpoints.hit('wake.before-mark')
    turn.signal.throwIfAborted()
  } catch (error) {
    await on.driver.kill(desktopId)
    throw error
  }
  await spendAll(on, turn, { wokeFrom: 'memory', running: true })
  await on.failpoints.hit('wake.after-mark')
  turn.signal.throwIfAborted()
  await on.driver.resume(desktopId)
  await on.failpoints.hit('wake.after-resume')
  return 'memory'
}

/** The digest is compared while the hypervisor reads the same file; both have ended when this returns or throws. */
async function restoreAndCompare(on: Ground, turn: Turn, image: MemoryImage): Promise<void> {
  const ended = await Promise.allSettled([
    on.memory.verifyDigest(image, turn.signal),
    on.driver.restorePaused(turn.fence.desktopId, image.path, markOf(on, turn.fence)),
  ])
  for (const part of ended) if (part.status === 'rejected') throw part.reason
}

async function boot(on: Ground, turn: Turn, { spec }: Wish): Promise<ResumedFrom> {
  progress(on, turn, 'booting')
  const wokeFrom = turn.entry().disk === 'fresh' ? 'image' : 'disk'
  await on.failpoints.hit('wake.before-mark')
  turn.signal.throwIfAborted()
  await spendAll(on, turn, { wokeFrom, running: true, ready: false })
  await on.failpoints.hit('wake.after-mark')
  turn.signal.throwIfAborted()
  await on.driver.startCold(spec, markOf(on, turn.fence))
  await turn.note({ disk: 'used' })
  await on.failpoints.hit('wake.after-resume')
  return wokeFrom
}

function progress(on: Ground, turn: Turn, phase: 'restoring' | 'booting' | 'waiting-for-guest'): void {
  const { desktopId, operationId } = turn.fence
  on.say('operation.progress', { desktopId, operationId, phase, doneBytes: null, totalBytes: null })
}

// Decides how a desktop comes to run, and from what. A warm copy is resumed. Otherwise its saved memory is restored paused. Either
// is marked spent before it is resumed: a failure before or after that mark leaves memory and disk as they belong together.
import {
  type CommandPayload,
  type CommandResult,
  type DesktopId,
  type DesktopSpec,
  Refusal,
  type ResumedFrom,
  refuse,
} from '@dormouse/contract'
import type { Semaphore } from '@dormouse/process'
import { type Log, together } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import { requestNewAddress } from '../guest/catch-up.ts'
import { becomesReady, untilAnswers, untilResumed } from '../guest/ready.ts'
import { unlessAborted } from '../mechanics/deadlines.ts'
import type { Digests } from './digests.ts'
import { type DiskDeps, ensureDisk } from './ensure-disk.ts'
import { emptyUnidentified, type FirstWakeDeps, firstWake } from './first-wake.ts'
import type { MemoryImage } from './memory-images.ts'
import { reportPhase } from './report.ts'
import { finished, holdsMemory, isWarm, lookAtRest, markOf, neverRan, type Situation, spendAll } from './situation.ts'
import { grown, sizeOf, specOfRunning, specOfSaved } from './sizes.ts'
import type { Templates } from './templates.ts'
import type { Turn } from './turns.ts'
import type { WarmCopies } from './warm-copies.ts'

export interface WakeDeps extends FirstWakeDeps, DiskDeps {
  installationId: string
  driver: Driver
  digests: Digests
  /** Limits the boots, restores and saves that run at once. */
  slots: Semaphore
  warm: Pick<WarmCopies, 'makeSpace' | 'forget'>
  templates: Pick<Templates, 'want' | 'giveWay'> & FirstWakeDeps['templates']
  log: Log
}

type WakeRequest = Omit<CommandPayload<'desktop.ensureAwake'>, 'fence'>

/** The rest of the caller's time is for returning the result. */
const shareOfDeadline = 0.9

/** The desktop runs, its guest answers and its clock is right. Returns what it came from, and whether it is ready. */
export async function wake(
  deps: WakeDeps,
  turn: Turn,
  request: WakeRequest,
): Promise<CommandResult<'desktop.ensureAwake'>> {
  const { desktopId, deadlineMs } = turn.fence
  const deadline = performance.now() + deadlineMs * shareOfDeadline
  await deps.digests.stop(desktopId)
  await emptyUnidentified(deps, turn)
  const now = await lookAtRest(deps, desktopId)
  const hasRun = holdsMemory(now) && !neverRan(now)
  const isCopy = request.source.memory !== 'discard' && isWarm(now) && (await responds(deps, desktopId))
  deps.warm.forget(desktopId)
  const resumedFrom = hasRun || isCopy ? await adopt(deps, turn, now, request) : await start(deps, turn, request, now)
  reportPhase(deps.report, turn.fence, 'waiting-for-guest')
  const { wokeBy } = turn.entry()
  const answers = resumedFrom === 'memory' || wokeBy === 'template' ? untilResumed : untilAnswers
  // A guest that has just begun with a template has answered already.
  if (hasRun || wokeBy !== 'template') {
    await answers(deps, desktopId, deadline - performance.now(), turn.signal).catch((error) =>
      explain(deps, turn, error),
    )
  }
  if (wokeBy === 'boot') await unlessAborted(meet(deps, turn, resumedFrom), turn.signal)
  // Not awaited: the desktop can be used without a network.
  if (resumedFrom === 'memory') void requestNewAddress(deps, desktopId, turn.fence.generation)
  const ready = await isReady(deps, turn, resumedFrom, deadline)
  if (ready && wokeBy === 'boot' && resumedFrom === 'image') deps.templates.want(desktopId, request.spec)
  return { resumedFrom, ready, ...(wokeBy && { path: wokeBy }), ...sizeOf(turn) }
}

/** A guest that has booted gets what serves its host. Only at the first boot may the image turn out to be unfit. */
async function meet({ guests, log }: WakeDeps, { fence }: Turn, resumedFrom: ResumedFrom): Promise<void> {
  try {
    await guests.meet(fence.desktopId)
  } catch (error) {
    if (!(error instanceof Refusal) || (error.code === 'image_unsuited' && resumedFrom === 'image')) throw error
    log.warn({ err: error, desktopId: fence.desktopId }, 'a guest that has booted was not reached yet over SSH')
  }
}

/** Before the image of a copy is spent: a process that fails to answer is no copy. */
async function responds({ driver, log }: WakeDeps, desktopId: DesktopId): Promise<boolean> {
  try {
    await driver.isKept(desktopId)
    return true
  } catch (error) {
    // If libvirt does not answer, nobody knows whether the copy has run since its save. The wake is retried.
    if (!(error instanceof Refusal) || error.code === 'host_unreachable') throw error
    log.warn({ err: error, desktopId }, 'a warm copy has failed; the saved memory is restored')
    return false
  }
}

/**
 * Whether the image's command for readiness has succeeded since the guest was booted. A boot waits for it until the deadline. A
 * restore waits for nothing: if the memory was saved before that, the command is tried once.
 */
async function isReady(deps: WakeDeps, turn: Turn, resumedFrom: ResumedFrom, deadline: number): Promise<boolean> {
  const { desktopId } = turn.fence
  const readiness = turn.entry().ready ? undefined : await deps.driver.readiness(desktopId)
  if (!readiness) return true
  const maxTries = resumedFrom === 'memory' ? 1 : Infinity
  const command = { ...turn.fence, ...readiness, maxTries, deadline }
  const ready = await becomesReady(deps, command, turn.signal).catch((error) => explain(deps, turn, error))
  // Not synced: if it is lost, the command is tried again.
  if (ready) await turn.note({ ready }, { unsynced: true })
  return ready
}

/** A guest that does not answer may be paused by a full disk: then that is the reason. */
async function explain({ driver }: WakeDeps, turn: Turn, error: unknown): Promise<never> {
  const domain = await driver.domain(turn.fence.desktopId)
  if (domain?.pause === 'space')
    refuse('host_disk_full', 'the host’s disk is full, and the guest was paused; nothing was lost')
  throw error
}

/** An earlier command or turn started it, or its save left it: the memory that it holds is kept. */
async function adopt(deps: WakeDeps, turn: Turn, now: Situation, request: WakeRequest): Promise<ResumedFrom> {
  const { driver, failpoints } = deps
  const { desktopId } = turn.fence
  const { wokeFrom = null, wokeBy } = turn.entry()
  const warm = isWarm(now)
  await failpoints.hit('wake.before-mark')
  turn.signal.throwIfAborted()
  const spec = warm ? await specOfSaved(deps, turn, now.images[0], request) : specOfRunning(turn, request)
  const note = { spec, wokeFrom: wokeFrom ?? 'memory', wokeBy: warm ? 'warm' : wokeBy, running: true } as const
  await spendAll(deps, turn, { ...note, disk: 'used' })
  await failpoints.hit('wake.after-mark')
  turn.signal.throwIfAborted()
  await driver.setMark(markOf(deps, turn.fence))
  await driver.setShares(desktopId, spec.shares)
  if (now.domain?.state === 'paused') await driver.resumeKept(desktopId)
  await failpoints.hit('wake.after-resume')
  return note.wokeFrom
}

async function start(deps: WakeDeps, turn: Turn, request: WakeRequest, now: Situation): Promise<ResumedFrom> {
  if (now.domain) await deps.driver.kill(turn.fence.desktopId)
  const chosen = choose(turn, request.source.memory, now)
  const image = chosen && (await finished(deps, chosen))
  if (image) deps.memory.verify(image)
  // A restored memory needs the disk that it was saved with: a new disk would corrupt it.
  const disk = image ? 'require' : request.source.disk
  await ensureDisk(deps, turn, { spec: request.spec, disk, image: request.image })
  const spec = await (image ? specOfSaved(deps, turn, image, request) : grown(deps, turn, request))
  await turn.note({ spec })
  await deps.templates.giveWay(spec.memoryMiB)
  await deps.warm.makeSpace(spec.memoryMiB)
  if (!image) {
    const begin = async () => ((await firstWake(deps, turn, spec)) ? 'image' : boot(deps, turn, spec))
    return deps.slots.run(begin, { signal: turn.signal })
  }
  return deps.slots.run(() => restore(deps, turn, image), { signal: turn.signal })
}

/** The image to restore, undefined to boot from disk, or a refusal: a memory is only given up on request. */
function choose(
  turn: Turn,
  requested: WakeRequest['source']['memory'],
  { usable, memory }: Situation,
): MemoryImage | undefined {
  if (requested === 'discard') return undefined
  if (usable) return usable
  const remedy = 'wake with discard_memory to boot from disk'
  if (turn.entry().wokeFrom === 'memory') {
    refuse(
      'memory_lost',
      `the guest ran on after its memory was restored, and ended before the wake was done; ${remedy}`,
    )
  }
  if (requested === 'allow') return undefined
  if (memory === 'partial') refuse('memory_image_damaged', `the saved memory was never written whole; ${remedy}`)
  if (memory === 'spent')
    refuse('memory_lost', `the saved memory was used before and must not be used again; ${remedy}`)
  return refuse('memory_image_missing', `the saved memory is not where it was left; ${remedy}`)
}

async function restore(deps: WakeDeps, turn: Turn, image: MemoryImage): Promise<ResumedFrom> {
  const { driver, failpoints } = deps
  const { desktopId } = turn.fence
  reportPhase(deps.report, turn.fence, 'restoring', image.bytes ?? null)
  try {
    await restoreAndCompare(deps, turn, image)
    await failpoints.hit('wake.before-mark')
    turn.signal.throwIfAborted()
  } catch (error) {
    await driver.kill(desktopId)
    throw error
  }
  await spendAll(deps, turn, { wokeFrom: 'memory', wokeBy: 'restore', running: true })
  await failpoints.hit('wake.after-mark')
  turn.signal.throwIfAborted()
  await driver.resume(desktopId)
  await failpoints.hit('wake.after-resume')
  return 'memory'
}

/** Compares the digest while the hypervisor reads the same file; both have ended when this returns or throws. */
async function restoreAndCompare(deps: WakeDeps, turn: Turn, image: MemoryImage): Promise<void> {
  await together([deps.memory.verifyDigest(image, turn.signal), restoreLimited(deps, turn, image)])
}

/** It has its shares before it runs. */
async function restoreLimited(deps: WakeDeps, turn: Turn, image: MemoryImage): Promise<void> {
  const { desktopId } = turn.fence
  await deps.driver.restorePaused(desktopId, image.path, markOf(deps, turn.fence))
  await deps.driver.setShares(desktopId, turn.entry().spec?.shares)
}

async function boot(deps: WakeDeps, turn: Turn, spec: DesktopSpec): Promise<ResumedFrom> {
  const { failpoints } = deps
  reportPhase(deps.report, turn.fence, 'booting')
  const wokeFrom = turn.entry().disk === 'fresh' ? 'image' : 'disk'
  await failpoints.hit('wake.before-mark')
  turn.signal.throwIfAborted()
  await spendAll(deps, turn, { wokeFrom, wokeBy: 'boot', running: true, ready: false })
  await failpoints.hit('wake.after-mark')
  turn.signal.throwIfAborted()
  await deps.driver.startCold(spec, markOf(deps, turn.fence))
  await deps.driver.setShares(turn.fence.desktopId, spec.shares)
  // Not synced: if it is lost, the next boot reports that it came from the image.
  await turn.note({ disk: 'used' }, { unsynced: true })
  await failpoints.hit('wake.after-resume')
  return wokeFrom
}

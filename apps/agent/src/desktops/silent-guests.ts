// Why a guest does not answer, if its host can see that: it has suspended itself, or something has paused it. A report goes to
// the control plane at the same time, and it hibernates the desktop.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, type Observation, Refusal, type RefusalCode, refuse } from '@dormouse/contract'
import { before } from '../mechanics/deadlines.ts'
import { observe } from './inventory.ts'
import type { SendReport } from './report.ts'
import type { LookDeps } from './situation.ts'
import type { Turns } from './turns.ts'

export interface SilenceDeps extends LookDeps {
  turns: Pick<Turns, 'busy'>
  report: SendReport
}

/** A move or a save pauses a guest for less. */
const pausedMs = 750
const lookMs = 50
/** For the look itself, if the hypervisor does not answer either. */
const answerMs = 3_000
const silences: ReadonlySet<RefusalCode> = new Set<RefusalCode>(['guest_unavailable', 'exec_interrupted'])
const fullDisk = 'the desktop is paused because the disk of its host is full; retry later'

/** Before anything begins in a guest: one that stays paused is refused as that. */
export async function requireUnpaused(deps: SilenceDeps, desktopId: DesktopId): Promise<void> {
  const ends = performance.now() + pausedMs
  while (deps.driver.frozen(desktopId)) {
    if (performance.now() > ends) return refusePaused(await pauseOf(deps, desktopId))
    await sleep(lookMs)
  }
}

/**
 * Throws the failure of a call to a guest; a guest that is silent because it is paused is refused as that. What may have begun
 * keeps its own refusal.
 */
export async function explainSilence(deps: SilenceDeps, desktopId: DesktopId, failure: unknown): Promise<never> {
  if (!(failure instanceof Refusal) || !silences.has(failure.code)) throw failure
  const pause = await pauseOf(deps, desktopId)
  if (failure.code === 'guest_unavailable') refusePaused(pause)
  throw failure
}

function refusePaused(pause: Observation['pause']): void {
  if (pause === 'space') refuse('guest_unavailable', fullDisk)
  if (pause) refuse('guest_suspended')
}

/** What pauses its guest, unless the host's own work does. What only a wake ends is reported to the control plane. */
async function pauseOf(deps: SilenceDeps, desktopId: DesktopId): Promise<Observation['pause']> {
  if (!deps.journal.read(desktopId)?.running || deps.turns.busy(desktopId)) return undefined
  const seen = await before(
    performance.now() + answerMs,
    observe(deps, desktopId).catch(() => undefined),
  )
  if (seen?.pause && seen.pause !== 'space') deps.report('desktop.observed', seen)
  return seen?.pause
}

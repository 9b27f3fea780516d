// Why a guest did not answer, if its host can see that: it has suspended itself, or something has paused it. The control plane is
// told at the same time, and hibernates the desktop.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import { observe } from './inventory.ts'
import type { SendReport } from './report.ts'
import type { LookDeps } from './situation.ts'
import type { Turns } from './turns.ts'

export interface SilenceDeps extends LookDeps {
  turns: Pick<Turns, 'busy'>
  report: SendReport
}

/** Throws the failure of a call to a guest; a guest that is silent because it is paused is refused as that. */
export async function explainSilence(deps: SilenceDeps, desktopId: DesktopId, failure: unknown): Promise<never> {
  const isSilence = failure instanceof Refusal && failure.code === 'guest_unavailable'
  if (!isSilence || !deps.journal.read(desktopId)?.running || deps.turns.busy(desktopId)) throw failure
  const seen = await observe(deps, desktopId).catch(() => undefined)
  if (seen?.pause === 'space')
    refuse('guest_unavailable', 'the desktop is paused because the disk of its host is full; retry later')
  if (!seen?.pause) throw failure
  deps.report('desktop.observed', seen)
  return refuse('guest_suspended')
}

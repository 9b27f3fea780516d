// Sends the events of a batch, at their pace. Whatever ends it, nothing stays pressed.
import { once } from 'node:events'
import type { Damage } from './damage.ts'
import { paste } from './paste.ts'
import { type Planned, pauseAfter, type Step } from './plan.ts'
import type { RfbSession } from './rfb-session.ts'

export interface Performed {
  outcome: 'done' | 'failed' | 'interrupted'
  /** How many actions were done whole. */
  performed: number
  reason: string | null
}

/** Stops before the next event when the signal aborts. */
export async function perform(
  session: RfbSession,
  planned: readonly Planned[],
  { paceMs, damage, signal }: { paceMs: number; damage: Damage; signal: AbortSignal },
): Promise<Performed> {
  let performed = 0
  let isResized = false
  const resized = () => {
    isResized = true
  }
  session.once('resized', resized)
  try {
    for (const steps of planned) {
      for (const step of steps) {
        if (signal.aborted) return { outcome: 'interrupted', performed, reason: reasonOf(signal) }
        if (isResized) return { outcome: 'failed', performed, reason: 'the screen changed its size' }
        await send(session, step, paceMs, damage, signal)
      }
      if (signal.aborted && steps.length > 0) return { outcome: 'interrupted', performed, reason: reasonOf(signal) }
      performed++
    }
    return { outcome: 'done', performed, reason: null }
  } catch (error) {
    return { outcome: 'failed', performed, reason: (error as Error).message }
  } finally {
    session.off('resized', resized)
    await session.release()
  }
}

export const reasonOf = ({ reason }: AbortSignal): string => (reason instanceof Error ? reason.message : String(reason))

async function send(session: RfbSession, step: Step, paceMs: number, damage: Damage, signal: AbortSignal) {
  if (step.type === 'pause') return pause(session, step.ms, signal)
  if (step.type === 'paste') {
    const pressKeys = async () => {
      for (const key of step.keys) await send(session, key, paceMs, damage, signal)
    }
    return paste(session, step.text, { pressKeys, damage, signal })
  }
  // What this does to the screen may be what the batch is for. Releasing answers nothing: the press may have changed it.
  const isRelease = step.type === 'key' ? !step.down : (step.mask & session.mask) < session.mask
  if (step.type === 'pointer') damage.pointed(step.at)
  if (!isRelease) damage.mark()
  const pauseMs = pauseAfter(step, paceMs, session.mask)
  if (step.type === 'key') session.key(step.code, step.down)
  else session.point(step.at, step.mask)
  return pause(session, pauseMs, signal)
}

/** Ends early when the signal aborts or the connection ends. */
async function pause(session: RfbSession, ms: number, signal: AbortSignal): Promise<void> {
  if (ms === 0 || signal.aborted || session.isEnded) return
  const either = AbortSignal.any([signal, AbortSignal.timeout(ms)])
  await once(session, 'ended', { signal: either }).catch(() => undefined)
}

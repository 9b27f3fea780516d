// Sends the events of a batch, at their pace. Whatever ends it, nothing stays pressed, and each lock is as the guest had it.
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

interface Means {
  paceMs: number
  damage: Damage
  signal: AbortSignal
}

/** Stops before the next event when the signal aborts. */
export async function perform(session: RfbSession, planned: readonly Planned[], means: Means): Promise<Performed> {
  const { signal } = means
  let performed = 0
  let isResized = false
  const resized = () => {
    isResized = true
  }
  const press = (code: number) => tap(session, code, means)
  session.once('resized', resized)
  try {
    for (const steps of planned) {
      const needed = await session.locks.prepare(steps, press, signal)
      for (const step of steps) {
        if (signal.aborted) return { outcome: 'interrupted', performed, reason: reasonOf(signal) }
        if (isResized) return { outcome: 'failed', performed, reason: 'the screen changed its size' }
        await send(session, step, means)
        session.locks.requireUnchanged(needed)
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
    if (!session.isEnded) await session.locks.restore(press)
    await session.keysArrived()
  }
}

export const reasonOf = ({ reason }: AbortSignal): string => (reason instanceof Error ? reason.message : String(reason))

async function tap(session: RfbSession, code: number, means: Means): Promise<void> {
  for (const down of [true, false]) if (!session.isEnded) await send(session, { type: 'key', code, down }, means)
}

async function send(session: RfbSession, step: Step, means: Means): Promise<void> {
  const { damage, signal, paceMs } = means
  if (step.type === 'pause') return pause(session, step.ms, signal)
  if (step.type === 'paste') {
    const pressKeys = async () => {
      for (const key of step.keys) await send(session, key, means)
    }
    return paste(session, step.text, { pressKeys, damage, signal })
  }
  // What this does to the screen may be what the batch is for. A release is no reason to wait: the press may have changed the
  // screen.
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

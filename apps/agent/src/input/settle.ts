// Waits until a screen has settled: it has changed, and has then been quiet. Reports at the end of its time, and never fails for it.
import { once } from 'node:events'
import type { Damage } from './damage.ts'
import type { RfbSession } from './rfb-session.ts'

export interface SettleParams {
  quietMs: number
  maxMs: number
}

export interface Settled {
  settled: boolean
  changed: boolean
  settleMs: number
}

const lookMs = 20

/**
 * `changed`: first waits for a change after the mark. Before it reports a settled screen it compares a whole new picture: one
 * that differs was not settled.
 */
export async function settle(
  session: RfbSession,
  damage: Damage,
  { quietMs, maxMs }: SettleParams,
  first: 'changed' | 'any',
  signal: AbortSignal,
): Promise<Settled> {
  const startedAt = performance.now()
  const sinceStart = () => performance.now() - startedAt
  const end = (settled: boolean) => ({ settled, changed: damage.hasChanged, settleMs: Math.round(sinceStart()) })
  while (sinceStart() < maxMs && !signal.aborted && !session.isEnded) {
    const mayBeQuiet = first === 'any' || damage.hasAnswered
    const askedMs = first === 'any' ? quietMs : damage.quietFor(quietMs)
    const waitMs = mayBeQuiet ? askedMs - Math.min(damage.quietMs, sinceStart()) : Infinity
    if (waitMs <= 0) {
      await session.refresh()
      // Any difference in the whole picture counts as a change.
      if (damage.quietMs >= askedMs) return end(true)
      continue
    }
    await update(session, Math.max(lookMs, Math.min(waitMs, maxMs - sinceStart())), signal)
  }
  return end(false)
}

/** Waits for an update, at most this long. */
async function update(session: RfbSession, waitMs: number, signal: AbortSignal): Promise<void> {
  const either = AbortSignal.any([signal, AbortSignal.timeout(Math.ceil(waitMs))])
  await once(session, 'update', { signal: either }).catch(() => undefined)
}

// The guest of a desktop that is awake here, in the generation that was asked for, and how long one may wait for it.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Ground } from '../desktops/ground.ts'
import type { GuestTransport } from './transport.ts'

interface Wish {
  desktopId: DesktopId
  generation: number
}

const lookEveryMs = 250

export function awakeGuest(ground: Ground, wish: Wish): GuestTransport {
  if (!isAwake(ground, wish)) refuse('not_awake', 'the desktop is not awake on its host in this generation')
  return ground.driver.guest(wish.desktopId)
}

/** Aborted with `given`, and when the desktop is no longer awake: a transfer that waits for its caller would not notice. */
export function whileAwake(ground: Ground, wish: Wish, given: AbortSignal): { signal: AbortSignal } & Disposable {
  const asleep = new AbortController()
  const gone = new Refusal('guest_unavailable', 'the desktop went away during the transfer')
  const timer = setInterval(() => {
    if (!isAwake(ground, wish)) asleep.abort(gone)
  }, lookEveryMs)
  return { signal: AbortSignal.any([given, asleep.signal]), [Symbol.dispose]: () => clearInterval(timer) }
}

function isAwake({ journal }: Ground, { desktopId, generation }: Wish): boolean {
  const entry = journal.read(desktopId)
  return Boolean(entry?.running) && entry?.generation === generation
}

/** Waits for one step of the guest; `guest_deadline` where it takes longer. */
export async function inTime<T>(step: Promise<T>, timeoutSecs: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const refusal = new Refusal('guest_deadline', `the guest’s file system did not answer within ${timeoutSecs} s`)
  const timer = setTimeout(() => late.reject(refusal), timeoutSecs * 1_000)
  try {
    return await Promise.race([step, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

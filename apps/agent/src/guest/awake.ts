// The guest of a desktop that is awake here, in the generation that was asked for, and how long one may wait for it.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Ground } from '../desktops/ground.ts'
import type { GuestTransport } from './transport.ts'

interface Wish {
  desktopId: DesktopId
  generation: number
}

const lookEveryMs = 250
/** One that stands still at so many looks in a row is not only about to be moved or saved. */
const stillLooks = 3
const asleep = 'the desktop went to sleep or went away meanwhile; look at its state'
const frozen =
  'the desktop stands still on its host: it goes to sleep, or was stopped there; look at its state, or try again'

export function awakeGuest(ground: Ground, wish: Wish): GuestTransport {
  if (!isAwake(ground, wish)) refuse('not_awake', 'the desktop is not awake on its host in this generation')
  return ground.driver.guest(wish.desktopId)
}

/**
 * Aborted with `given`, and when the desktop is no longer awake, or stands still on its host: whoever waits for the guest,
 * or for its caller, would not notice.
 */
export function whileAwake(ground: Ground, wish: Wish, given?: AbortSignal): { signal: AbortSignal } & Disposable {
  const over = new AbortController()
  let still = 0
  const timer = setInterval(() => {
    still = ground.driver.frozen(wish.desktopId) ? still + 1 : 0
    if (!isAwake(ground, wish)) over.abort(new Refusal('guest_unavailable', asleep))
    else if (still >= stillLooks) over.abort(new Refusal('guest_unavailable', frozen))
  }, lookEveryMs)
  const signal = given ? AbortSignal.any([given, over.signal]) : over.signal
  return { signal, [Symbol.dispose]: () => clearInterval(timer) }
}

/** What comes of the work, unless the signal aborts: then its reason, and the work is left to itself. */
export async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const aborted = Promise.withResolvers<never>()
  const abort = () => aborted.reject(signal.reason)
  if (signal.aborted) abort()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([work, aborted.promise])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function isAwake({ journal }: Ground, { desktopId, generation }: Wish): boolean {
  const entry = journal.read(desktopId)
  return Boolean(entry?.running) && entry?.generation === generation
}

/**
 * Waits for one step of the guest; `guest_deadline` where it takes longer, and the signal's reason where that aborts. What
 * comes too late is handed to `drop`.
 */
export async function inTime<T>(
  step: Promise<T>,
  timeoutSecs: number,
  signal?: AbortSignal,
  drop: (late: T) => Promise<unknown> = async () => undefined,
): Promise<T> {
  const late = Promise.withResolvers<never>()
  const refusal = new Refusal('guest_deadline', `the guest’s file system did not answer within ${timeoutSecs} s`)
  const timer = setTimeout(() => late.reject(refusal), timeoutSecs * 1_000)
  const inTime = Promise.race([step, late.promise])
  try {
    return await (signal ? unlessAborted(inTime, signal) : inTime)
  } catch (error) {
    void step.then(drop).catch(() => undefined)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

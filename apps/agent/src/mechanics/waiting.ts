// Waiting for a step of a guest, but not longer than its caller, or than a limit. The step itself goes on.
import { Refusal } from '@dormouse/contract'

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

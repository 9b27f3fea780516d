// One step of a file transfer with a guest: opening, reading, writing or placing.
import { Refusal } from '@dormouse/contract'
import { unlessAborted } from '../mechanics/deadlines.ts'

/**
 * What the step returns; `guest_deadline` after the timeout, and the signal's reason where that aborts. The result of a
 * step that ends later goes to `discard`.
 */
export async function fileStep<T>(
  step: Promise<T>,
  timeoutSecs: number,
  signal?: AbortSignal,
  discard: (late: T) => Promise<unknown> = async () => undefined,
): Promise<T> {
  const late = Promise.withResolvers<never>()
  const refusal = new Refusal('guest_deadline', `the guest’s file system did not answer within ${timeoutSecs} s`)
  const timer = setTimeout(() => late.reject(refusal), timeoutSecs * 1_000)
  const inTime = Promise.race([step, late.promise])
  try {
    return await (signal ? unlessAborted(inTime, signal) : inTime)
  } catch (error) {
    void step.then(discard).catch(() => undefined)
    throw error
  } finally {
    clearTimeout(timer)
  }
}

// Repeating an attempt until it succeeds.
import { setTimeout as sleep } from 'node:timers/promises'

/** Repeats the attempt until it returns true, or for about `maxMs`. What it throws ends the repetition. */
export async function retryFor(maxMs: number, pauseMs: number, attempt: () => Promise<boolean>): Promise<void> {
  const startedAt = performance.now()
  while (!(await attempt()) && performance.now() - startedAt < maxMs) await sleep(pauseMs)
}

/** Repeats the attempt, after a first pause, until it returns true. A throw counts as false. It keeps no process alive. */
export async function retryInBackground(
  tries: number,
  everyMs: number,
  attempt: () => Promise<boolean>,
): Promise<void> {
  for (let i = 0; i < tries; i++) {
    await sleep(everyMs, undefined, { ref: false })
    if (await attempt().catch(() => false)) return
  }
}

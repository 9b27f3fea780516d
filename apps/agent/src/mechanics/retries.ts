// Repeating an attempt until it succeeds.
import { setTimeout as sleep } from 'node:timers/promises'

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

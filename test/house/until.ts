// The one way a test waits: for a value, and not for ever. Knows nothing of what is waited for.
import { setTimeout as sleep } from 'node:timers/promises'

/** Looks again until there is a value; throws with what was waited for, and what was seen last, when the time is over. */
export async function until<T>(
  what: string,
  look: () => T | undefined | false | null | Promise<T | undefined | false | null>,
  timeoutMs = 30_000,
): Promise<T> {
  const ends = performance.now() + timeoutMs
  for (;;) {
    const value = await look()
    if (value) return value
    if (performance.now() > ends) throw new Error(`waited ${timeoutMs} ms in vain for ${what}`)
    await sleep(10)
  }
}

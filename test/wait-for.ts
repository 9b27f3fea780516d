// How every test waits: for a value, for a limited time. Does not know what it waits for.
import { setTimeout as sleep } from 'node:timers/promises'

type Look<T> = () => T | undefined | false | null | Promise<T | undefined | false | null>

/** A starved machine may need as long for what is immediate on a quiet one. */
const patienceMs = 60_000
const firstPauseMs = 5
const longestPauseMs = 50

/**
 * Calls `look` until it answers a value, and answers that value. Throws after `timeoutMs`; the error names what was
 * waited for, by the source of `look` if no name is given. An error of `look` ends the wait.
 */
export function waitFor<T>(what: string, look: Look<T>, timeoutMs?: number): Promise<T>
export function waitFor<T>(look: Look<T>, timeoutMs?: number): Promise<T>
export function waitFor<T>(first: string | Look<T>, second?: Look<T> | number, timeoutMs = patienceMs): Promise<T> {
  if (typeof first === 'string') return poll(first, second as Look<T>, timeoutMs)
  return poll(String(first), first, (second as number | undefined) ?? patienceMs)
}

/** The pauses grow: most values come at once, and a look at the service costs it processor time. */
async function poll<T>(what: string, look: Look<T>, timeoutMs: number): Promise<T> {
  const ends = performance.now() + timeoutMs
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.3, longestPauseMs)) {
    const value = await look()
    if (value) return value
    if (performance.now() > ends) throw new Error(`timed out after ${timeoutMs} ms, waiting for ${what}`)
    await sleep(pauseMs)
  }
}

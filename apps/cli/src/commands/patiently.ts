// Goes on reading while no replica answers: what an operator waits for goes on meanwhile.
import { setTimeout as sleep } from 'node:timers/promises'
import { ConnectionError, UnavailableError } from '@dormouse/client'

export const pollMs = 1_000
/** A leader change takes seconds. */
const patienceMs = 120_000

export async function patiently<T>(read: () => Promise<T>): Promise<T> {
  const ends = performance.now() + patienceMs
  for (;;) {
    try {
      return await read()
    } catch (error) {
      const passes = error instanceof ConnectionError || error instanceof UnavailableError
      if (!passes || performance.now() > ends) throw error
      await sleep(pollMs)
    }
  }
}

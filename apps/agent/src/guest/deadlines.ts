// Waiting for something, but not for ever. The work itself goes on.
import { setTimeout as sleep } from 'node:timers/promises'

/** Undefined where it is not there in time. */
export async function before<T>(deadline: number, work: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), Math.max(0, deadline - performance.now()))
  return Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
}

/** A guest that reboots is back by then. */
const tries = 24
const tryEveryMs = 5_000

/** Tries for two minutes until it succeeds; nobody waits for it. */
export function untilHeard(work: () => Promise<boolean>): void {
  const trying = async () => {
    for (let i = 0; i < tries; i++) {
      await sleep(tryEveryMs, undefined, { ref: false })
      if (await work().catch(() => false)) return
    }
  }
  void trying()
}

/** How long the answer to a command that passed its deadline waits for its end, and for how long that is tried. */
const killMs = 6_000
const killAtMostMs = 60_000
const killPauseMs = 100

/** Kills until it is done; a guest that a command has filled up may have no room yet for what ends that. */
export async function untilKilled(kill: () => Promise<boolean>): Promise<void> {
  const began = performance.now()
  const killing = async () => {
    while (!(await kill()) && performance.now() - began < killAtMostMs) await sleep(killPauseMs)
  }
  await before(began + killMs, killing())
}

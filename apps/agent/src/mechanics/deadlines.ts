// Waiting for something, but not for ever. The work itself goes on.
import { setTimeout as sleep } from 'node:timers/promises'
import { type ExecCommand, refuse } from '@dormouse/contract'

/** Undefined where it is not there in time. */
export async function before<T>(deadline: number, work: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>()
  const timer = setTimeout(() => late.resolve(undefined), Math.max(0, deadline - performance.now()))
  return Promise.race([work, late.promise]).finally(() => clearTimeout(timer))
}

/** When the time of a command is over that is taken now. */
export const deadlineOf = ({ timeoutSecs }: ExecCommand): number => performance.now() + timeoutSecs * 1_000

/** Waits until something is begun; `guest_deadline` where it is not in time, and what is begun after that is handed to `end`. */
export async function begunBefore<T>(
  deadline: number,
  beginning: Promise<T>,
  end: (late: T) => Promise<unknown>,
): Promise<T> {
  const begun = await before(deadline, beginning)
  if (begun !== undefined) return begun
  // Nobody is left to be told how that went.
  beginning.then(end).catch(() => undefined)
  return refuse('guest_deadline', 'the guest was too busy to begin it in time')
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

// Waits until a guest answers and its clock is right, and then until it is ready, where its image says what that means.
// Tells a guest that is slow from one whose process is gone.
import { setTimeout as sleep } from 'node:timers/promises'
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'
import type { GuestTransport } from '../driver/guest-transport.ts'
import type { Readiness } from '../images/images.ts'
import { before } from '../mechanics/deadlines.ts'
import { unlessAborted } from '../mechanics/waiting.ts'

const firstPauseMs = 10
const longestPauseMs = 100
const lookEveryMs = 500
const firstTryPauseMs = 50
const longestTryPauseMs = 1_000

/** Returns when the guest answers; `guest_silent` after `timeoutMs`, `hypervisor_failed` when its process ends. */
export async function untilAnswers(driver: Driver, desktopId: string, timeoutMs: number, signal: AbortSignal) {
  const guest = driver.guest(desktopId)
  const started = performance.now()
  let looked = started
  for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 1.5, longestPauseMs)) {
    signal.throwIfAborted()
    if (await answers(guest)) return
    const now = performance.now()
    if (now - started > timeoutMs) {
      refuse('guest_silent', `the guest did not answer within ${Math.round(timeoutMs / 1000)} s of starting`)
    }
    if (now - looked > lookEveryMs) {
      looked = now
      await mustRun(driver, desktopId)
    }
    await sleep(pauseMs)
  }
}

interface ReadyWish extends Readiness {
  desktopId: DesktopId
  generation: number
  /** How often the command is tried at most. */
  tries: number
  /** When its time is over. */
  until: number
}

/** Whether the command of its image succeeds in time; `hypervisor_failed` when its process ends meanwhile. */
export async function becomesReady(driver: Driver, wish: ReadyWish, signal: AbortSignal): Promise<boolean> {
  const guest = driver.guest(wish.desktopId)
  for (let tried = 1, pauseMs = firstTryPauseMs; ; tried++, pauseMs = Math.min(pauseMs * 1.5, longestTryPauseMs)) {
    signal.throwIfAborted()
    if (await succeeds(guest, wish, signal)) return true
    if (tried >= wish.tries || performance.now() + pauseMs >= wish.until) return false
    await mustRun(driver, wish.desktopId)
    await sleep(pauseMs)
  }
}

/** One try. It is ended at its deadline, and nobody waits until it has ended. */
async function succeeds(guest: GuestTransport, wish: ReadyWish, signal: AbortSignal): Promise<boolean> {
  const { desktopId, generation, command, tryTimeoutSecs, until } = wish
  const deadline = Math.min(until, performance.now() + tryTimeoutSecs * 1_000)
  const words = { desktopId, generation, command, cwd: null, env: {}, stdin: null, timeoutSecs: tryTimeoutSecs }
  const trying = guest.exec(words, signal, deadline).then(({ exitCode }) => exitCode === 0, unlessRefused)
  return (await unlessAborted(before(deadline, trying), signal)) ?? false
}

/** A guest that boots may refuse anything. */
function unlessRefused(error: unknown): false {
  if (error instanceof Refusal) return false
  throw error
}

async function mustRun(driver: Driver, desktopId: string): Promise<void> {
  const domain = await driver.domain(desktopId)
  if (domain?.state === 'running') return
  const what = domain?.state === 'paused' ? 'was paused' : 'ended'
  refuse(
    'hypervisor_failed',
    `the desktop's process ${what} before its guest answered${domain?.reason ? ` (${domain.reason})` : ''}`,
  )
}

async function answers(guest: GuestTransport): Promise<boolean> {
  try {
    // Whoever sets its clock has answered: a ping beforehand would only be one call more.
    await guest.setTime()
    return true
  } catch (error) {
    if (error instanceof Refusal) return false
    throw error
  }
}

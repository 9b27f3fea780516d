// Waits until a guest answers and its clock is right, and tells a guest that is slow from one whose process is gone.
import { setTimeout as sleep } from 'node:timers/promises'
import { Refusal, refuse } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'
import type { GuestTransport } from './transport.ts'

const firstPauseMs = 10
const longestPauseMs = 100
const lookEveryMs = 500

/** Returns when the guest answers; `guest_silent` after `timeoutMs`, `hypervisor_failed` when its process ends. */
export async function untilReady(driver: Driver, desktopId: string, timeoutMs: number, signal: AbortSignal) {
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

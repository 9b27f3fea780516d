// The guest of a desktop that is awake here, in the generation that was asked for, and how long one may wait for it.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Ground } from '../desktops/ground.ts'
import type { GuestTransport } from './transport.ts'

export function awakeGuest(ground: Ground, wish: { desktopId: DesktopId; generation: number }): GuestTransport {
  const entry = ground.journal.read(wish.desktopId)
  if (!entry?.running || entry.generation !== wish.generation) {
    refuse('not_awake', 'the desktop is not awake on its host in this generation')
  }
  return ground.driver.guest(wish.desktopId)
}

/** Waits for one step of the guest; `guest_deadline` where it takes longer. */
export async function inTime<T>(step: Promise<T>, timeoutSecs: number): Promise<T> {
  const late = Promise.withResolvers<never>()
  const refusal = new Refusal('guest_deadline', `the guest’s file system did not answer within ${timeoutSecs} s`)
  const timer = setTimeout(() => late.reject(refusal), timeoutSecs * 1_000)
  try {
    return await Promise.race([step, late.promise])
  } finally {
    clearTimeout(timer)
  }
}

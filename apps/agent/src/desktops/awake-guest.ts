// The guest of a desktop that is awake here, in the generation that was asked for, and how long one may wait for it.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { GuestTransport } from '../driver/guest-transport.ts'
import type { Ground } from './ground.ts'

interface Wish {
  desktopId: DesktopId
  generation: number
}

const lookEveryMs = 250
/** One that stands still at so many looks in a row is not only about to be moved or saved. */
const stillLooks = 3
const asleep = 'the desktop went to sleep or went away meanwhile; look at its state'
const frozen =
  'the desktop stands still on its host: it goes to sleep, or was stopped there; look at its state, or try again'

export function awakeGuest(ground: Ground, wish: Wish): GuestTransport {
  if (!isAwake(ground, wish)) refuse('not_awake', 'the desktop is not awake on its host in this generation')
  return ground.driver.guest(wish.desktopId)
}

/**
 * Aborted with `given`, and when the desktop is no longer awake, or stands still on its host: whoever waits for the guest,
 * or for its caller, would not notice.
 */
export function whileAwake(ground: Ground, wish: Wish, given?: AbortSignal): { signal: AbortSignal } & Disposable {
  const over = new AbortController()
  let still = 0
  const timer = setInterval(() => {
    still = ground.driver.frozen(wish.desktopId) ? still + 1 : 0
    if (!isAwake(ground, wish)) over.abort(new Refusal('guest_unavailable', asleep))
    else if (still >= stillLooks) over.abort(new Refusal('guest_unavailable', frozen))
  }, lookEveryMs)
  const signal = given ? AbortSignal.any([given, over.signal]) : over.signal
  return { signal, [Symbol.dispose]: () => clearInterval(timer) }
}

function isAwake({ journal }: Ground, { desktopId, generation }: Wish): boolean {
  const entry = journal.read(desktopId)
  return Boolean(entry?.running) && entry?.generation === generation
}

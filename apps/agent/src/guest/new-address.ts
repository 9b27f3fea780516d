// A guest whose memory has come from another host still has the address that it had there, and one that began with a template has
// none. It requests its own, as it would when it boots.
import { type DesktopId, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { GuestAddress } from '../driver/guest-access.ts'
import { newAddressScript, newAddressSecs } from '../scripts/new-address.ts'
import type { Guests } from './guests.ts'
import { untilResumed } from './ready.ts'

export interface AddressDeps {
  driver: Pick<Driver, 'domain' | 'newAddress' | 'guestSleep' | 'usage' | 'frozen'>
  guests: Guests
  log: Log
}

interface Target {
  desktopId: DesktopId
  generation: number
}

const answerMs = 60_000

/** Never throws: if it fails, the guest agent serves the guest. It has no network until it requests the address by itself. */
export async function requestNewAddress(deps: AddressDeps, desktopId: DesktopId, generation: number): Promise<void> {
  const { driver, log } = deps
  try {
    const address = await driver.newAddress(desktopId)
    if (address) await requestAddress(deps, { desktopId, generation }, address)
  } catch (error) {
    log.warn({ err: error, desktopId }, 'a guest has not got its new address; until it requests it, it has no network')
  }
}

/** The guest has that address when this returns. */
export async function requestAddress(
  deps: AddressDeps,
  { desktopId, generation }: Target,
  address: GuestAddress,
): Promise<void> {
  await untilResumed(deps, desktopId, answerMs, new AbortController().signal)
  const command = newAddressScript(address)
  const request = { desktopId, generation, command, cwd: null, env: {}, stdin: null, timeoutSecs: newAddressSecs }
  const { exitCode } = await deps.guests.guest(desktopId).exec(request)
  if (exitCode !== 0) refuse('guest_unavailable', `the guest’s request for its address ended with ${exitCode}`)
  deps.log.info({ desktopId }, 'a guest has requested its address')
}

// A guest whose memory has come from another host still has the address that it had there. It requests the new one, as it
// would on its own when its lease ends.
import type { DesktopId } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import { newAddressScript, newAddressSecs } from '../scripts/new-address.ts'
import type { Guests } from './guests.ts'
import { untilResumed } from './ready.ts'

export interface AddressDeps {
  driver: Pick<Driver, 'domain' | 'newAddress'>
  guests: Guests
  log: Log
}

const answerMs = 60_000

/** Never throws: where it fails, the guest has no network until its lease ends, and the guest agent serves it. */
export async function requestNewAddress(deps: AddressDeps, desktopId: DesktopId, generation: number): Promise<void> {
  const { driver, guests, log } = deps
  try {
    const address = await driver.newAddress(desktopId)
    if (!address) return
    await untilResumed(deps, desktopId, answerMs, new AbortController().signal)
    const command = newAddressScript(address)
    const request = { desktopId, generation, command, cwd: null, env: {}, stdin: null, timeoutSecs: newAddressSecs }
    const { exitCode } = await guests.guest(desktopId).exec(request)
    log.info({ desktopId, exitCode }, 'a guest has requested its new address')
  } catch (error) {
    log.warn({ err: error, desktopId }, 'a guest has not got its new address; it requests it when its lease ends')
  }
}

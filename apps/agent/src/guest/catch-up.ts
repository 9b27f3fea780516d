// What a guest has to catch up with after a move, a first wake from a template or a larger disk: its clock, its address, its file
// system. In the background: it can be used meanwhile.
import { type DesktopId, refuse } from '@dormouse/contract'
import type { Log } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { GuestAddress } from '../driver/guest-access.ts'
import type { Guests } from '../driver/guest-transport.ts'
import { newAddressScript, newAddressSecs } from '../scripts/new-address.ts'
import { untilResumed } from './ready.ts'

const answerMs = 60_000

/** On its new host: the guest's clock and its address. Never throws. */
export async function catchUp(deps: AddressDeps, desktopId: DesktopId, generation: number): Promise<void> {
  await setClock(deps, desktopId)
  await requestNewAddress(deps, desktopId, generation)
}

/** Adds the time for which the guest was paused. Never throws: if it fails, the guest's clock is late by that. */
export async function setClock(deps: AddressDeps, desktopId: DesktopId): Promise<void> {
  try {
    // It answers when its clock is set.
    await untilResumed(deps, desktopId, answerMs, new AbortController().signal)
  } catch (error) {
    deps.log.warn({ err: error, desktopId }, 'the clock of a guest that was paused for a move could not be set')
  }
}

export interface AddressDeps {
  driver: Pick<Driver, 'domain' | 'newAddress' | 'guestSleep' | 'usage' | 'frozen'>
  guests: Guests
  log: Log
}

interface Target {
  desktopId: DesktopId
  generation: number
}

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

const growCommand = 'resize2fs /dev/vda'
const growSecs = 300

/** Never throws. */
export async function growFileSystem(
  { guests, log }: { guests: Pick<Guests, 'guest'>; log: Log },
  desktopId: DesktopId,
  generation: number,
): Promise<void> {
  try {
    const exec = { desktopId, generation, command: growCommand, cwd: null, env: {}, stdin: null, timeoutSecs: growSecs }
    const { exitCode } = await guests.guest(desktopId).exec(exec)
    log.info({ desktopId, exitCode }, 'a guest has grown its file system')
  } catch (error) {
    log.warn({ err: error, desktopId }, 'a guest has not grown its file system; it does when it boots')
  }
}

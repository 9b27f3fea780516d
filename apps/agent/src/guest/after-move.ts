// What a guest that was moved, or was to be moved, has to catch up with. In the background: it can be used meanwhile.
import type { DesktopId } from '@dormouse/contract'
import { type AddressDeps, requestNewAddress } from './new-address.ts'
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

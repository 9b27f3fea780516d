// Whether a desktop can be used now. Pure.
import { refuse } from '@dormouse/contract'
import { failedMessage } from './states.ts'
import type { DesktopRow } from './store.ts'

/** The host and generation of an awake desktop; refuses with `not_awake` in any other state. */
export function requireAwake(desktop: DesktopRow): { hostId: string; generation: number } {
  const { state, hostId, generation } = desktop
  if (state === 'awake' && hostId !== null) return { hostId, generation }
  if (state === 'failed') return refuse('not_awake', failedMessage(desktop.failureCode), { state })
  const isGone = state === 'destroying' || state === 'destroyed'
  return refuse('not_awake', `the desktop is ${state}; ${isGone ? 'create another' : 'wake it first'}`, { state })
}

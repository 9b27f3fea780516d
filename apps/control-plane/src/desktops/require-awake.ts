// Whether a desktop may be used now. Pure.
import { refuse } from '@dormouse/contract'
import { isLost } from './states.ts'
import type { DesktopRow } from './store.ts'

/** The desktop's host and generation; refuses with `not_awake` where it is not. */
export function requireAwake(desktop: DesktopRow): { hostId: string; generation: number } {
  const { state, hostId, generation } = desktop
  if (state === 'awake' && hostId !== null) return { hostId, generation }
  if (state === 'failed') return refuse('not_awake', isLost(desktop.failureCode), { state })
  const isGone = state === 'destroying' || state === 'destroyed'
  return refuse('not_awake', `the desktop is ${state}; ${isGone ? 'create another' : 'wake it first'}`, { state })
}

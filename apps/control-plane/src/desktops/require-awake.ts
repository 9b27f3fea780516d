// Whether a desktop may be used now. Pure.
import { refuse } from '@dormouse/contract'
import type { DesktopRow } from './store.ts'

/** The desktop's host and generation; refuses with `not_awake` where it is not. */
export function requireAwake({ state, hostId, generation }: DesktopRow): { hostId: string; generation: number } {
  if (state === 'awake' && hostId !== null) return { hostId, generation }
  const isGone = state === 'destroying' || state === 'destroyed' || state === 'failed'
  return refuse('not_awake', `the desktop is ${state}; ${isGone ? 'create another' : 'wake it first'}`)
}

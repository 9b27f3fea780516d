// What a bulk does with a desktop in this state. Pure.
import { type BulkAction, type DesktopState, messageOf } from '@dormouse/contract'
import { illegalRequest, inProgress, isLegal } from '../desktops/states.ts'
import type { DesktopRow } from '../desktops/store.ts'
import type { Chosen } from './store.ts'

const reached: Record<Exclude<BulkAction, 'label'>, readonly DesktopState[]> = {
  wake: ['waking', 'awake'],
  hibernate: ['hibernating', 'hibernated', 'stopped', 'created'],
  destroy: ['destroying', 'destroyed'],
}

type Judged = Pick<DesktopRow, 'state' | 'failureCode'>

/** Whether the desktop waits for the action, or is skipped and why. */
export function chosen(action: BulkAction, desktopId: string, desktop: Judged | undefined): Chosen {
  if (!desktop) return { desktopId, status: 'skipped', code: 'not_found', detail: messageOf('not_found') }
  const detail = whyNot(action, desktop)
  if (detail) return { desktopId, status: 'skipped', code: 'wrong_state', detail }
  return { desktopId, status: 'waiting', code: null, detail: null }
}

/** A state that passes is no reason: it is judged again when the plan comes to the desktop. */
function whyNot(action: BulkAction, { state, failureCode }: Judged): string | undefined {
  if (action === 'label') return state === 'destroyed' ? 'the desktop is destroyed' : undefined
  if (reached[action].includes(state)) return `there is nothing to do: the desktop is ${state}`
  return isLegal(action, state) || inProgress.includes(state) ? undefined : illegalRequest(action, state, failureCode)
}

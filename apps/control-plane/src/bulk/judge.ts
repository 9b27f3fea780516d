// What a bulk does with a desktop in this state. Pure.
import { type BulkAction, type DesktopState, messageOf } from '@dormouse/contract'
import type { DesktopRow } from '../desktops/store.ts'
import type { Chosen } from './store.ts'

const reached: Record<Exclude<BulkAction, 'label'>, readonly DesktopState[]> = {
  wake: ['waking', 'awake'],
  hibernate: ['hibernating', 'hibernated', 'stopped', 'created'],
  destroy: ['destroying', 'destroyed'],
}

/** Whether the desktop waits for the action, or is skipped and why. */
export function chosen(action: BulkAction, desktopId: string, desktop: DesktopRow | undefined): Chosen {
  if (!desktop) return { desktopId, status: 'skipped', code: 'not_found', detail: messageOf('not_found') }
  const detail = whyNot(action, desktop.state)
  if (detail) return { desktopId, status: 'skipped', code: 'wrong_state', detail }
  return { desktopId, status: 'waiting', code: null, detail: null }
}

function whyNot(action: BulkAction, state: DesktopState): string | undefined {
  if (action === 'label') return state === 'destroyed' ? 'the desktop is destroyed' : undefined
  return reached[action].includes(state) ? `there is nothing to do: the desktop is ${state}` : undefined
}

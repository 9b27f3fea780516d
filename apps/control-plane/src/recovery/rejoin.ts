// A host is back and says what it has: each item is compared with what the database believes. Never destroys on absence.
// Pure: decides; `service.ts` reads, writes and sends.
import type { DesktopState, Observation, RejoinOrder } from '@dormouse/contract'
import type { DesktopRow } from '../desktops/store.ts'

/** What one comparison asks for: an order to the host, a new true state in the database, or a word to the operator. */
export interface Verdict {
  order: RejoinOrder['order']
  /** The state the database should hold instead; undefined where it is true already. */
  become?: DesktopState
  alarm?: string
}

const keep: Verdict = { order: 'keep' }

/** Compares one item of a host's inventory with the database's row of it. */
export function judge(hostId: string, item: Observation, row: DesktopRow | undefined): Verdict {
  const runs = item.domain === 'running' || item.domain === 'paused'
  if (!row)
    return runs
      ? { order: 'suspend', alarm: 'a desktop runs that the database does not know' }
      : { ...keep, alarm: 'a desktop is kept that the database does not know' }
  if (item.generation > row.generation || (item.generation === row.generation && item.turn > row.turn)) {
    return { ...keep, alarm: 'the host has seen a later turn than the database: was it restored from an older copy?' }
  }
  if (row.state === 'destroyed') return { order: 'remove' }
  if (row.hostId !== hostId) return runs ? { order: 'stop' } : keep
  return judgeBelieved(item, row, runs)
}

function judgeBelieved(item: Observation, row: DesktopRow, runs: boolean): Verdict {
  const saved = item.memory === 'complete' && !runs
  switch (row.state) {
    case 'awake':
      if (item.domain === 'running') return keep
      if (item.domain === 'paused') return { ...keep, alarm: 'a desktop that should be awake is paused' }
      return { ...keep, become: saved ? 'hibernated' : 'stopped' }
    case 'hibernated':
      if (runs) return { order: 'suspend', alarm: 'a desktop runs that should be hibernated' }
      // A spent memory is never restored. One that is missing may be put back by hand.
      return item.memory === 'spent' ? { ...keep, become: 'stopped' } : keep
    case 'stopped':
      if (saved) return { ...keep, become: 'hibernated' }
      return runs ? { order: 'suspend', alarm: 'a desktop runs that should be stopped' } : keep
    case 'created':
      return runs ? { order: 'suspend', alarm: 'a desktop runs that was never woken' } : keep
    default:
      return keep
  }
}

/** What the database believes awake and the host does not have has stopped. Anything else that is missing is left alone. */
export const judgeMissing = (row: DesktopRow): DesktopState | undefined =>
  row.state === 'awake' ? 'stopped' : undefined

/** One pass never stops or removes more than this of a host's items: it is then more likely that we are wrong. */
export const massLimit = (items: number): number => Math.max(5, Math.floor(items * 0.05))

export const isDrastic = (order: RejoinOrder['order']): boolean => order === 'stop' || order === 'remove'

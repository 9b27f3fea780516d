// Judges each item of a host's inventory against the database's row. Absence never destroys anything. Pure: `comparison.ts`
// reads, writes and sends.
import type { DesktopState, Observation, RejoinOrder } from '@dormouse/contract'
import type { DesktopRow } from '../desktops/store.ts'

/** The result of one comparison: an order to the host, and perhaps a corrected state and an alarm for operators. */
export interface Verdict {
  order: RejoinOrder['order']
  /** The state that the database should have; undefined if it is right. */
  become?: DesktopState
  /** It counts as awake, and only a wake makes its guest run again. */
  hibernate?: true
  alarm?: string
}

const keep: Verdict = { order: 'keep' }

/** Compares one item of a host's inventory with the row of its desktop. */
export function judge(hostId: string, item: Observation, row: DesktopRow | undefined): Verdict {
  const runs = item.domain === 'running' || item.domain === 'paused'
  if (!row)
    return runs
      ? { order: 'suspend', alarm: 'a host runs a desktop that has no record in the database' }
      : { ...keep, alarm: 'a host keeps a desktop that has no record in the database' }
  if (item.generation > row.generation || (item.generation === row.generation && item.turn > row.turn)) {
    return {
      ...keep,
      alarm: 'the host has seen a later turn than the database; was the database restored from a backup?',
    }
  }
  if (row.state === 'destroyed') return { order: 'remove' }
  if (row.hostId !== hostId) return runs ? elsewhere(item, row) : keep
  return judgeBelieved(item, row, runs)
}

/** A move keeps the generation. So this may be the one whole copy, if the database was restored to before its move. */
const elsewhere = (item: Observation, row: DesktopRow): Verdict =>
  item.generation === row.generation
    ? {
        order: 'suspend',
        alarm: 'a desktop runs on another host than the database names; was the database restored from a backup?',
      }
    : { order: 'stop' }

function judgeBelieved(item: Observation, row: DesktopRow, runs: boolean): Verdict {
  const saved = item.memory === 'complete' && !runs
  switch (row.state) {
    case 'awake':
      if (needsWake(item)) return { ...keep, hibernate: true }
      // A full disk is the host's own problem, which it reports.
      if (item.domain === 'running' || item.pause === 'space') return keep
      if (item.domain === 'paused') return { ...keep, alarm: 'a desktop that should be awake is paused' }
      return { ...keep, become: saved ? 'hibernated' : 'stopped' }
    case 'hibernated':
      if (runs) return { order: 'suspend', alarm: 'a desktop runs that should be hibernated' }
      // Spent memory is never restored. A missing one may be put back by an operator.
      return item.memory === 'spent' ? { ...keep, become: 'stopped' } : keep
    case 'stopped':
      if (saved) return { ...keep, become: 'hibernated' }
      return runs ? { order: 'suspend', alarm: 'a desktop runs that should be stopped' } : keep
    case 'created':
      return runs ? { order: 'suspend', alarm: 'a desktop runs that was never woken' } : keep
    case 'failed':
      return runs ? { order: 'suspend', alarm: 'a desktop runs that failed because its host was lost' } : keep
    default:
      return keep
  }
}

/** Whether only a wake makes it run again. A guest whose disk is full is resumed by its host. */
export const needsWake = ({ pause }: Pick<Observation, 'pause'>): boolean => pause === 'suspended' || pause === 'paused'

/** An awake desktop that the host does not have has stopped. Anything else that is missing is left alone. */
export const judgeMissing = (row: DesktopRow): DesktopState | undefined =>
  row.state === 'awake' ? 'stopped' : undefined

/** The most items of a host that one comparison may stop or remove. If more differ, the error is probably ours. */
export const massLimit = (items: number): number => Math.max(5, Math.floor(items * 0.05))

export const isDrastic = (order: RejoinOrder['order']): boolean => order === 'stop' || order === 'remove'

// Limits how many calls of one desktop are in flight on this host, so that a caller with many takes nothing from the other
// desktops. Commands that wake and hibernate are not counted.
import { type CommandName, type DesktopId, type GuestCallName, type GuestStreamName, refuse } from '@dormouse/contract'
import type { Activity } from '../desktops/activity.ts'

const guest = { lane: 'guest', limit: 64, what: 'commands and transfers' }
/** Those that wait for output wait in a lane of their own: an exec is stopped and started anyway. */
const execs = { lane: 'execs', limit: 32, what: 'requests for execs' }
const lanes: Partial<Record<GuestCallName | GuestStreamName | CommandName, typeof guest>> = {
  exec: guest,
  'file.write': guest,
  'file.read': guest,
  'upload.step': guest,
  'upload.append': guest,
  'archive.read': guest,
  'archive.write': guest,
  'entry.list': guest,
  'entry.change': guest,
  'exec.start': execs,
  'exec.list': execs,
  'exec.get': execs,
  'exec.write': execs,
  'exec.signal': execs,
  'exec.resize': execs,
  'exec.remove': execs,
  'exec.read': { lane: 'output', limit: 32, what: 'requests for the output of execs' },
  'watch.start': execs,
  'watch.remove': execs,
  'watch.read': { lane: 'watches', limit: 32, what: 'requests for the changes of files' },
  'screen.look': { lane: 'look', limit: 8, what: 'looks at the screen' },
}

export class CallsInFlight {
  readonly #counts = new Map<string, number>()
  readonly #activity: Pick<Activity, 'begin'>

  constructor(activity: Pick<Activity, 'begin'>) {
    this.#activity = activity
  }

  /** Counts the call until it is disposed, and commands and transfers as activity; refuses one above the limit. */
  enter(name: string, desktopId: DesktopId | undefined): Disposable {
    const lane = Object.hasOwn(lanes, name) ? lanes[name as keyof typeof lanes] : undefined
    if (!lane || !desktopId) return { [Symbol.dispose]: () => undefined }
    const key = `${lane.lane} ${desktopId}`
    const count = this.#counts.get(key) ?? 0
    if (count >= lane.limit)
      refuse('guest_unavailable', `${count} ${lane.what} of this desktop are in flight; retry with fewer at once`)
    const active =
      lane === guest || name === 'exec.start' ? this.#activity.begin(desktopId, activityOf(name)) : undefined
    this.#counts.set(key, count + 1)
    return {
      [Symbol.dispose]: () => {
        this.#leave(key)
        active?.[Symbol.dispose]()
      },
    }
  }

  /** The desktop's commands and transfers in flight. */
  count(desktopId: DesktopId): number {
    return this.#counts.get(`${guest.lane} ${desktopId}`) ?? 0
  }

  #leave(key: string): void {
    const left = (this.#counts.get(key) ?? 1) - 1
    if (left > 0) this.#counts.set(key, left)
    else this.#counts.delete(key)
  }
}

const activityOf = (name: string) => (name === 'exec' || name === 'exec.start' ? 'command' : 'transfer')

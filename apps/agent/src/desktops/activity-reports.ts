// What a heartbeat reports of the desktops' activity: on each link only what has changed since the heartbeat before.
import type { DesktopId, GuestActivity } from '@dormouse/contract'
import type { Activity } from './activity.ts'

/** Bounds a heartbeat; the rest comes with the next ones. */
const mostAtOnce = 2_000

export class ActivityReports {
  readonly #activity: Activity
  /** What each link was sent last. A heartbeat that is not answered ends its link, and the next link begins with all. */
  readonly #sent = new WeakMap<object, Map<DesktopId, string>>()

  constructor(activity: Activity) {
    this.#activity = activity
  }

  /** Returns the activity of those desktops that have changed since the last call with this link. */
  changed(link: object, running: readonly { desktopId: DesktopId; generation: number }[]): GuestActivity[] {
    const before = this.#sent.get(link) ?? new Map<DesktopId, string>()
    const sent = new Map<DesktopId, string>()
    const changed: GuestActivity[] = []
    for (const { desktopId, generation } of running) {
      const earlier = before.get(desktopId)
      const mark = this.#activity.mark(desktopId, generation)
      const isNew = mark !== earlier && changed.length < mostAtOnce
      if (isNew) changed.push(this.#activity.of(desktopId, generation))
      if (isNew || earlier !== undefined) sent.set(desktopId, isNew ? mark : earlier!)
    }
    this.#sent.set(link, sent)
    return changed
  }
}

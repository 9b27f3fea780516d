// When each desktop was last used, as far as this agent process has seen it. Knows no policy, and not who uses the screen.
import {
  type DesktopId,
  type GuestActivity,
  type HostClass,
  hostClasses,
  type IdleCondition,
  refuse,
} from '@dormouse/contract'

/** By the monotonic clock, in milliseconds. */
interface Known {
  watchedSince: number
  /** The end of the latest activity of each class. */
  lastAt: Map<HostClass, number>
  /** Commands and transfers in flight. */
  inFlight: Map<HostClass, number>
  /** Classes that were above their threshold at the last sample. */
  above: Set<HostClass>
}

export class Activity {
  readonly #known = new Map<DesktopId, Known>()
  /** Desktops that are about to hibernate because they are idle. */
  readonly #held = new Set<DesktopId>()
  /** How many screens of a desktop are open. */
  readonly #shown = new Map<DesktopId, number>()
  readonly #now: () => number

  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** From now on nothing of the desktop is missed. */
  watch(desktopId: DesktopId): void {
    this.#of(desktopId)
  }

  /** A command or a transfer, which counts until it is disposed. Refuses if the desktop is about to hibernate. */
  begin(desktopId: DesktopId, what: 'command' | 'transfer'): Disposable {
    if (this.#held.has(desktopId))
      refuse('guest_unavailable', 'the desktop is about to hibernate; check its state, then retry')
    const { inFlight, lastAt } = this.#of(desktopId)
    const change = (by: number) => {
      inFlight.set(what, (inFlight.get(what) ?? 0) + by)
      lastAt.set(what, this.#now())
    }
    change(1)
    return { [Symbol.dispose]: () => change(-1) }
  }

  /** An open screen. Looking is no activity, but this host cannot see who uses it. */
  show(desktopId: DesktopId): Disposable {
    const change = (by: number) => {
      const count = (this.#shown.get(desktopId) ?? 0) + by
      if (count > 0) this.#shown.set(desktopId, count)
      else this.#shown.delete(desktopId)
    }
    change(1)
    return { [Symbol.dispose]: () => change(-1) }
  }

  isShown(desktopId: DesktopId): boolean {
    return this.#shown.has(desktopId)
  }

  /** The result of a sample: whether the guest uses more of it than the threshold. */
  sampled(desktopId: DesktopId, what: 'cpu' | 'network', isAbove: boolean): void {
    const { above, lastAt } = this.#of(desktopId)
    if (isAbove) lastAt.set(what, this.#now())
    if (isAbove) above.add(what)
    else above.delete(what)
  }

  /** Forgets all desktops but these. */
  retain(running: ReadonlySet<DesktopId>): void {
    for (const [desktopId, { inFlight }] of this.#known) {
      const isUsed = [...inFlight.values()].some((count) => count > 0)
      if (!running.has(desktopId) && !isUsed) this.#known.delete(desktopId)
    }
  }

  of(desktopId: DesktopId, generation: number): GuestActivity {
    const known = this.#of(desktopId)
    const now = this.#now()
    const ages = [...known.lastAt].map(([what, at]) => [what, Math.round(now - at)])
    return {
      desktopId,
      generation,
      watchedMs: Math.round(now - known.watchedSince),
      busy: hostClasses.filter((what) => isBusy(known, what)),
      ages: Object.fromEntries(ages),
    }
  }

  /** Differs whenever a report of the desktop would have something new. */
  mark(desktopId: DesktopId, generation: number): string {
    const known = this.#of(desktopId)
    const classes = hostClasses.map((what) => (isBusy(known, what) ? 'now' : known.lastAt.get(what)))
    return [generation, known.watchedSince, ...classes].join(' ')
  }

  /**
   * Refuses with `not_idle` unless the desktop meets the condition. From then on, until it is disposed, no command and no
   * transfer begins.
   */
  hold(desktopId: DesktopId, { forMs, classes }: IdleCondition): Disposable {
    const known = this.#of(desktopId)
    const since = this.#now() - forMs
    const isRecent = (what: HostClass) => isBusy(known, what) || (known.lastAt.get(what) ?? -Infinity) > since
    const used = hostClasses.filter(
      (what) => (known.inFlight.get(what) ?? 0) > 0 || (classes.includes(what) && isRecent(what)),
    )
    if (used.length > 0) refuse('not_idle', `the desktop is in use: ${used.join(', ')}`)
    if (known.watchedSince > since) refuse('not_idle', 'the host has not watched the desktop for long enough')
    this.#held.add(desktopId)
    return { [Symbol.dispose]: () => this.#held.delete(desktopId) }
  }

  #of(desktopId: DesktopId): Known {
    const known = this.#known.get(desktopId)
    if (known) return known
    const made: Known = { watchedSince: this.#now(), lastAt: new Map(), inFlight: new Map(), above: new Set() }
    this.#known.set(desktopId, made)
    return made
  }
}

const isBusy = ({ inFlight, above }: Known, what: HostClass): boolean =>
  (inFlight.get(what) ?? 0) > 0 || above.has(what)

// What the linked hosts have reported about their desktops' activity, in the memory of this replica. Every replica gets the
// reports of every host.
import { type GuestActivity, type Heartbeat, type HostClass, hostClasses } from '@dormouse/contract'
import type { HostNote } from './store.ts'

/** Times are by this process's monotonic clock. */
interface Known {
  generation: number
  watchedSince: number
  busy: readonly HostClass[]
  lastAt: Map<HostClass, number>
  /** The time up to which it is stored. */
  storedAt: Map<HostClass, number>
}

/** A desktop as its host last reported it. */
export interface Seen {
  watchedMs: number
  busy: readonly HostClass[]
  /** Zero for a class that is busy. */
  ages: Partial<Record<HostClass, number>>
}

export class HostReports {
  readonly #hosts = new Map<string, Map<string, Known>>()

  /** A heartbeat lists only what has changed on its link, so entries of desktops that still run are kept. */
  heard(hostId: string, { running, activity }: Pick<Heartbeat, 'running' | 'activity'>): void {
    const before = this.#hosts.get(hostId)
    const now = new Map<string, Known>()
    for (const { desktopId } of running) {
      const known = before?.get(desktopId)
      if (known) now.set(desktopId, known)
    }
    this.#hosts.set(hostId, now)
    const present = new Set(running.map(({ desktopId }) => desktopId))
    for (const item of activity) if (present.has(item.desktopId)) this.#note(now, item)
  }

  /** A host's answer about one desktop. */
  observed(hostId: string, item: GuestActivity): void {
    const known = this.#hosts.get(hostId)
    if (known) this.#note(known, item)
  }

  /** The link has ended. The next one begins with a complete report. */
  forget(hostId: string): void {
    this.#hosts.delete(hostId)
  }

  /** Undefined if the host has reported nothing of this generation. */
  of(hostId: string, desktopId: string, generation: number): Seen | undefined {
    const known = this.#hosts.get(hostId)?.get(desktopId)
    if (known?.generation !== generation) return undefined
    const now = performance.now()
    const ages = [...known.lastAt].map(([what, at]) => [what, now - at])
    const busy = known.busy.map((what) => [what, 0])
    return { watchedMs: now - known.watchedSince, busy: known.busy, ages: Object.fromEntries([...ages, ...busy]) }
  }

  /** Notes that are newer than what an earlier call returned for storing; about `limit` at most. */
  takeUnstored(limit: number): HostNote[] {
    const now = performance.now()
    const notes: HostNote[] = []
    for (const [hostId, desktops] of this.#hosts) {
      if (notes.length >= limit) break
      for (const [desktopId, { busy, lastAt, storedAt }] of desktops) {
        for (const what of busy) lastAt.set(what, now)
        for (const [what, at] of lastAt) {
          if (at - (storedAt.get(what) ?? -Infinity) < sameMs) continue
          storedAt.set(what, at)
          notes.push({ hostId, desktopId, class: what, ageMs: now - at })
        }
      }
    }
    return notes
  }

  #note(desktops: Map<string, Known>, { desktopId, generation, watchedMs, busy, ages }: GuestActivity): void {
    const now = performance.now()
    const before = desktops.get(desktopId)
    const lastAt = new Map(before?.lastAt)
    for (const what of hostClasses) {
      const age = ages[what]
      if (age !== undefined) lastAt.set(what, Math.max(now - age, lastAt.get(what) ?? -Infinity))
    }
    const storedAt = before?.storedAt ?? new Map()
    desktops.set(desktopId, { generation, watchedSince: now - watchedMs, busy, lastAt, storedAt })
  }
}

/** If a host sends the same time twice, transit delays make the two differ by up to this. */
const sameMs = 1_000

// Which desktops are paused, from libvirt's events and replies. A reply to a request that is older than an event is ignored.
import type { DesktopId } from '@dormouse/contract'

export class Pauses {
  readonly #paused = new Set<DesktopId>()
  /** The number of each desktop's last event, counted over all desktops. */
  readonly #lastEvents = new Map<DesktopId, number>()
  #events = 0

  has(desktopId: DesktopId): boolean {
    return this.#paused.has(desktopId)
  }

  /** To be called for each event. */
  heard(desktopId: DesktopId, paused: boolean): void {
    this.#lastEvents.set(desktopId, ++this.#events)
    this.#note(desktopId, paused)
  }

  /** To be called before a request to libvirt; the returned function takes the reply. */
  ask(desktopId: DesktopId): (paused: boolean) => void {
    const asked = this.#events
    return (paused) => {
      if ((this.#lastEvents.get(desktopId) ?? 0) <= asked) this.#note(desktopId, paused)
    }
  }

  /** To be called when the desktop is destroyed. */
  forget(desktopId: DesktopId): void {
    this.#paused.delete(desktopId)
    this.#lastEvents.delete(desktopId)
  }

  /** Events may have been missed: the next replies set the states again. */
  clear(): void {
    this.#paused.clear()
  }

  #note(desktopId: DesktopId, paused: boolean): void {
    if (paused) this.#paused.add(desktopId)
    else this.#paused.delete(desktopId)
  }
}

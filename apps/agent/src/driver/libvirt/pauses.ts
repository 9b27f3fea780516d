// Which desktops are paused, as libvirt's events and its answers say. An answer that an event has overtaken is old news.
import type { DesktopId } from '@dormouse/contract'

export class Pauses {
  readonly #paused = new Set<DesktopId>()
  /** Which event, counted over all desktops, was the last of each. */
  readonly #lastEvents = new Map<DesktopId, number>()
  #events = 0

  has(desktopId: DesktopId): boolean {
    return this.#paused.has(desktopId)
  }

  /** An event tells it. */
  heard(desktopId: DesktopId, paused: boolean): void {
    this.#lastEvents.set(desktopId, ++this.#events)
    this.#note(desktopId, paused)
  }

  /** To be called before libvirt is asked; what it gives back takes the answer. */
  ask(desktopId: DesktopId): (paused: boolean) => void {
    const asked = this.#events
    return (paused) => {
      if ((this.#lastEvents.get(desktopId) ?? 0) <= asked) this.#note(desktopId, paused)
    }
  }

  /** The desktop is gone for good. */
  forget(desktopId: DesktopId): void {
    this.#paused.delete(desktopId)
    this.#lastEvents.delete(desktopId)
  }

  /** Events may have been missed: the next answers tell. */
  clear(): void {
    this.#paused.clear()
  }

  #note(desktopId: DesktopId, paused: boolean): void {
    if (paused) this.#paused.add(desktopId)
    else this.#paused.delete(desktopId)
  }
}

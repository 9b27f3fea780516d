// Counts wakes that fail by the fault of their host. In memory: a new leader counts from zero.

/** The number of desktops in a row, without one that wakes in between. */
const mostInARow = 3

export class FailingHosts {
  readonly #desktops = new Map<string, Set<string>>()

  /** Counts each desktop once: one that fails again and again may be at fault itself. Returns whether those are too many. */
  failed(hostId: string, desktopId: string): boolean {
    const known = this.#desktops.get(hostId) ?? new Set()
    if (known.has(desktopId)) return false
    known.add(desktopId)
    this.#desktops.set(hostId, known)
    if (known.size < mostInARow) return false
    // After the quarantine, one more failure is enough.
    known.delete(known.values().next().value!)
    return true
  }

  succeeded(hostId: string): void {
    this.#desktops.delete(hostId)
  }
}

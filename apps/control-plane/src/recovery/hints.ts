// Hints of hosts that something changed by itself: of each desktop the latest, looked at together, one look after another.
// However often a host says something, it costs one look at a time. Knows nothing of what a look finds.
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopId, Observation } from '@dormouse/contract'

/** What a host says meanwhile is looked at together. */
const pauseMs = 100
/** More is left to the steady comparison. */
const mostWaiting = 1_000

export class Hints {
  readonly #look: (hostId: string, hints: Observation[]) => Promise<void>
  readonly #waiting = new Map<string, Map<DesktopId, Observation>>()

  /** `look` must not reject. */
  constructor(look: (hostId: string, hints: Observation[]) => Promise<void>) {
    this.#look = look
  }

  /** Has it looked at, at once where the host has said nothing lately. */
  take(hostId: string, hint: Observation): void {
    const waiting = this.#waiting.get(hostId)
    if (!waiting) void this.#work(hostId, new Map([[hint.desktopId, hint]]))
    else if (waiting.size < mostWaiting || waiting.has(hint.desktopId)) waiting.set(hint.desktopId, hint)
  }

  async #work(hostId: string, waiting: Map<DesktopId, Observation>): Promise<void> {
    this.#waiting.set(hostId, waiting)
    while (waiting.size > 0) {
      const hints = [...waiting.values()]
      waiting.clear()
      await this.#look(hostId, hints)
      await sleep(pauseMs, undefined, { ref: false })
    }
    this.#waiting.delete(hostId)
  }
}

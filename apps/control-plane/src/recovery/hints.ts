// Coalesces hosts' reports that a desktop has changed: keeps the latest of each desktop and handles them in batches, one batch
// of a host at a time, however often it reports. Knows nothing of what handling them does.
import { setTimeout as sleep } from 'node:timers/promises'
import type { DesktopId, Observation } from '@dormouse/contract'

/** Reports of a host that arrive in this time are handled together. */
const pauseMs = 100
/** Further reports are dropped: the periodic comparison finds the change. */
const mostWaiting = 1_000

export class Hints {
  readonly #look: (hostId: string, hints: Observation[]) => Promise<void>
  readonly #waiting = new Map<string, Map<DesktopId, Observation>>()

  /** `look` must not reject. */
  constructor(look: (hostId: string, hints: Observation[]) => Promise<void>) {
    this.#look = look
  }

  /** Queues a report. It is handled at once if the host has reported nothing lately. */
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

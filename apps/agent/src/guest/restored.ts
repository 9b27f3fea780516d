// A restored guest that does not answer yet. It was up when its memory was saved, so it answers soon, unless it sleeps or hangs.
import { type DesktopId, Refusal, refuse } from '@dormouse/contract'
import type { Driver } from '../driver/driver.ts'

export interface RestoredDeps {
  driver: Pick<Driver, 'guestSleep' | 'usage' | 'frozen'>
}

/** A guest that wants no processor for so long waits for nothing of its own. */
const quietMs = 10_000
/** A guest that has used or waited for a processor for so long is busy with something else. */
const busyMs = 40_000
/** The share of one processor's time that an idle guest uses at most. */
const idleShare = 0.3

export class RestoredGuest {
  readonly #deps: RestoredDeps
  readonly #desktopId: DesktopId
  readonly #now: () => number
  #before: { at: number; usedMs: number } | undefined
  #quietForMs = 0
  #busyForMs = 0

  constructor(deps: RestoredDeps, desktopId: DesktopId, now = () => performance.now()) {
    this.#deps = deps
    this.#desktopId = desktopId
    this.#now = now
  }

  /** To be called repeatedly while it is silent. Wakes a guest that sleeps; refuses with `guest_silent` one that will not answer. */
  async look(): Promise<void> {
    await this.#deps.driver.guestSleep.wake(this.#desktopId).catch((error: unknown) => {
      if (!(error instanceof Refusal)) throw error
    })
    await this.#measure()
    if (this.#quietForMs >= quietMs)
      refuse('guest_silent', 'the guest is idle after its memory was restored, and does not answer')
    if (this.#busyForMs >= busyMs)
      refuse('guest_silent', 'the guest is busy since its memory was restored, and does not answer')
  }

  async #measure(): Promise<void> {
    const usage = await this.#deps.driver.usage([this.#desktopId])
    const usedMs = usage.get(this.#desktopId)?.processorMs
    const [at, before] = [this.#now(), this.#before]
    this.#before = usedMs === undefined ? undefined : { at, usedMs }
    // One whose process is stopped may go on at any time.
    const isKnown = usedMs !== undefined && before !== undefined && !this.#deps.driver.frozen(this.#desktopId)
    if (!isKnown) {
      this.#quietForMs = 0
      return
    }
    const [passedMs, busyMs] = [at - before.at, usedMs - before.usedMs]
    this.#busyForMs += busyMs
    this.#quietForMs = busyMs / passedMs > idleShare ? 0 : this.#quietForMs + passedMs
  }
}

// Slots for something scarce: a limit in all and one for each caller. Others wait in a bounded queue.
import { refuse } from '@dormouse/contract'

export interface SlotsOptions {
  atOnce: number
  /** Below `atOnce`, so that one caller never holds every slot. */
  perCaller: number
  waitMs: number
  /** How many requests of one caller may wait. */
  waitingPerCaller: number
}

interface Waiting {
  caller: string
  begin(): void
}

export class Slots {
  readonly #options: SlotsOptions
  readonly #held = new Map<string, number>()
  readonly #waiting = new Set<Waiting>()
  #total = 0

  constructor(options: SlotsOptions) {
    this.#options = options
  }

  /** How many slots are taken, and how many requests wait for one. */
  get counts(): { taken: number; waiting: number } {
    return { taken: this.#total, waiting: this.#waiting.size }
  }

  /** Waits for a slot. Refuses with 429 after `waitMs`, or where too many of the caller wait already. Release it once. */
  async acquire(caller: string, gone: AbortSignal): Promise<void> {
    if (this.#fits(caller)) return this.#hold(caller)
    const { waitMs, waitingPerCaller } = this.#options
    if ([...this.#waiting].filter((one) => one.caller === caller).length >= waitingPerCaller) busy()
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiting = { caller, begin: () => resolve(true) }
    // Synchronous, so that a slot released in the same tick does not go to a caller that has left.
    const giveUp = () => {
      this.#waiting.delete(waiting)
      resolve(false)
    }
    const timer = setTimeout(giveUp, waitMs)
    gone.addEventListener('abort', giveUp, { once: true })
    this.#waiting.add(waiting)
    const begins = await promise
    clearTimeout(timer)
    gone.removeEventListener('abort', giveUp)
    if (!begins) busy()
  }

  release(caller: string): void {
    this.#total--
    const left = (this.#held.get(caller) ?? 1) - 1
    if (left > 0) this.#held.set(caller, left)
    else this.#held.delete(caller)
    const next = [...this.#waiting].find((one) => this.#fits(one.caller))
    if (!next) return
    this.#waiting.delete(next)
    this.#hold(next.caller)
    next.begin()
  }

  #fits(caller: string): boolean {
    const { atOnce, perCaller } = this.#options
    return this.#total < atOnce && (this.#held.get(caller) ?? 0) < perCaller
  }

  #hold(caller: string): void {
    this.#total++
    this.#held.set(caller, (this.#held.get(caller) ?? 0) + 1)
  }
}

const busy = (): never =>
  refuse('rate_limited', 'too many long lists are being read; ask for pages with `limit`, or retry in a moment')

// Who may use something scarce at once: so many in all, so many of one caller, and the others wait in line, bounded.
// Knows nothing of what is scarce.
import { refuse } from '@dormouse/contract'

export interface TurnsOptions {
  atOnce: number
  /** One caller alone never has all. */
  perCaller: number
  waitMs: number
  /** How many of one caller may wait. */
  waitingPerCaller: number
}

interface Waiting {
  caller: string
  begin(): void
}

export class Turns {
  readonly #options: TurnsOptions
  readonly #held = new Map<string, number>()
  readonly #waiting = new Set<Waiting>()
  #total = 0

  constructor(options: TurnsOptions) {
    this.#options = options
  }

  /** How many have their turn now, and how many wait for one. */
  get counts(): { taken: number; waiting: number } {
    return { taken: this.#total, waiting: this.#waiting.size }
  }

  /** Waits for a turn; refuses with 429 who waits too long, or with too many. Every turn is given back once. */
  async take(caller: string, gone: AbortSignal): Promise<void> {
    if (this.#fits(caller)) return this.#hold(caller)
    const { waitMs, waitingPerCaller } = this.#options
    if ([...this.#waiting].filter((one) => one.caller === caller).length >= waitingPerCaller) busy()
    const { promise, resolve } = Promise.withResolvers<boolean>()
    const waiting = { caller, begin: () => resolve(true) }
    // At once: a turn that is given back in the same tick must not be given to one who has left.
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

  giveBack(caller: string): void {
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
  refuse('rate_limited', 'too many whole lists are read at once; ask for pages with `limit`, or again in a moment')

// How many requests a second one caller may send to this replica. Bounded itself: however many callers there are, it holds
// no more than so many counts. Knows neither credentials nor addresses.
import { Refusal, refusals } from '@dormouse/contract'

const windowMs = 1_000
const maxCallers = 10_000
/** Those for whom there is no count of their own in this window share one. */
const others = ''

export class RateLimit {
  readonly #perSecond: number
  readonly #counts = new Map<string, number>()
  #windowEnds = 0

  constructor(perSecond: number) {
    this.#perSecond = perSecond
  }

  /** Counts a request; throws `rate_limited` where it is one too many in this second. */
  count(caller: string): void {
    const now = performance.now()
    if (now >= this.#windowEnds) this.#begin(now)
    const name = this.#nameOf(caller)
    const counted = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, counted)
    if (counted > this.#perSecond) throw this.#tooMany(now)
  }

  /** Takes a count back. */
  forgive(caller: string): void {
    const name = this.#nameOf(caller)
    const counted = this.#counts.get(name)
    if (counted) this.#counts.set(name, counted - 1)
  }

  #begin(now: number): void {
    this.#counts.clear()
    this.#windowEnds = now + windowMs
  }

  #nameOf(caller: string): string {
    return this.#counts.has(caller) || this.#counts.size < maxCallers ? caller : others
  }

  #tooMany(now: number): Refusal {
    const resetSecs = Math.ceil((this.#windowEnds - now) / 1_000)
    return new Refusal('rate_limited', refusals.rate_limited.detail({ perSecond: this.#perSecond }), {
      retryAfterSecs: resetSecs,
      rateLimit: { limit: this.#perSecond, resetSecs },
    })
  }
}

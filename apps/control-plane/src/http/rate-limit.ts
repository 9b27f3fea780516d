// Limits the requests per second of one client to this replica. Its own memory is bounded, however many clients there are.
// Knows neither credentials nor addresses.
import { Refusal, refusals } from '@dormouse/contract'

const windowMs = 1_000
const maxCallers = 10_000
/** Clients above `maxCallers` share one count. */
const others = ''

export class RateLimit {
  readonly #perSecond: number
  readonly #counts = new Map<string, number>()
  #windowEnds = 0

  constructor(perSecond: number) {
    this.#perSecond = perSecond
  }

  /** Counts a request; throws `rate_limited` above the limit of this second. */
  count(caller: string): void {
    const now = performance.now()
    if (now >= this.#windowEnds) this.#begin(now)
    const name = this.#nameOf(caller)
    const counted = (this.#counts.get(name) ?? 0) + 1
    this.#counts.set(name, counted)
    if (counted > this.#perSecond) throw this.#tooMany(now)
  }

  /** Takes one count back. */
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

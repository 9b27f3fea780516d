// Limits the creates, wakes and hibernations of an organisation: a burst, and a steady rate after it. Each request leaves rows
// that are kept for months or forever. The leader counts in memory, since only it accepts requests. The next leader begins with
// full budgets.
import { type Labels, Refusal } from '@dormouse/contract'

/** Enough to create, wake and hibernate ten thousand desktops at once, and for 400,000 requests a day after that. */
const budget = { atOnce: 50_000, perSecond: 5 } as const
/** Above this number of organisations, those with a full budget are forgotten. */
const remembered = 10_000

const labelsPerToken = 1_024

/** What a request for a desktop with these labels costs: its record and its events keep them, too. */
export const costOf = (labels: Labels): number => 1 + Math.floor(JSON.stringify(labels).length / labelsPerToken)

interface Account {
  tokens: number
  countedAt: number
}

export class LifecycleBudget {
  readonly #accounts = new Map<string, Account>()
  readonly #now: () => number

  /** `now`: the time in milliseconds. */
  constructor(now = () => performance.now()) {
    this.#now = now
  }

  /** Takes from the organisation's budget. If too little is left, takes nothing and returns the refusal. */
  take(orgId: string, count = 1): Refusal | undefined {
    const tokens = this.#left(orgId)
    if (tokens < count) return tooMany(Math.ceil((count - tokens) / budget.perSecond))
    this.#store(orgId, tokens - count)
    return undefined
  }

  /** Returns what was taken but not used. */
  giveBack(orgId: string, count = 1): void {
    this.#store(orgId, Math.min(budget.atOnce, this.#left(orgId) + count))
  }

  #left(orgId: string): number {
    const account = this.#accounts.get(orgId)
    if (!account) return budget.atOnce
    const passedSecs = (this.#now() - account.countedAt) / 1_000
    return Math.min(budget.atOnce, account.tokens + passedSecs * budget.perSecond)
  }

  #store(orgId: string, tokens: number): void {
    if (this.#accounts.size >= remembered)
      for (const id of this.#accounts.keys()) if (this.#left(id) >= budget.atOnce) this.#accounts.delete(id)
    this.#accounts.set(orgId, { tokens, countedAt: this.#now() })
  }
}

function tooMany(resetSecs: number): Refusal {
  const { perSecond } = budget
  const detail = `the organisation exceeds ${perSecond} creates, wakes and hibernations per second; slow down, then retry`
  return new Refusal('rate_limited', detail, {
    retryAfterSecs: resetSecs,
    rateLimit: { limit: perSecond, resetSecs },
  })
}

// Quotas of desktops. Only the leader creates desktops, so it adds the creates in flight, counted in memory, to the count from
// the database. A create below the quota takes no lock. Knows neither HTTP nor tables.
import type { Leadership } from '../leadership/leadership.ts'

export interface QuotaRead {
  limit: number
  /** Counted up to the limit. */
  desktops: number
  /** Whether it has quotas of desktops by their labels, too. */
  hasQuotas: boolean
}

export interface QuotaOptions {
  leadership: Pick<Leadership, 'require' | 'term'>
  read(orgId: string): Promise<QuotaRead>
  /** How long a count is used. If an operator changes a limit, the change takes effect after this time. */
  trustMs?: number
}

/** The quota of one organisation, as the leader of one term counts it. */
interface Account {
  epoch: number
  limit: number
  hasQuotas: boolean
  /** Desktops that may still be created: never too many, but perhaps too few if creates were in flight during the count. */
  free: number
  exact: boolean
  underWay: number
  trustedUntil: number
  reading: Promise<void> | undefined
  /** Creates that wait until one in flight ends. */
  waiting: (() => void)[]
}

export class Quota {
  readonly #options: QuotaOptions
  readonly #accounts = new Map<string, Account>()

  constructor(options: QuotaOptions) {
    this.#options = options
  }

  /** A desktop was destroyed: the count is outdated. */
  freed(orgId: string): void {
    const account = this.#accounts.get(orgId)
    if (account) distrust(account)
  }

  /**
   * Calls `make` if the quota allows another desktop, and says whether there are quotas by labels; otherwise `full` with the
   * limit.
   */
  async within<T extends { made: boolean }>(
    orgId: string,
    make: (hasQuotas: boolean) => Promise<T>,
    full: (limit: number) => Promise<T>,
  ): Promise<T> {
    const account = await this.#take(orgId)
    if (typeof account === 'number') return full(account)
    try {
      const done = await make(account.hasQuotas)
      if (!done.made) account.free++
      return done
    } catch (error) {
      // The desktop may exist anyway, so count again.
      distrust(account)
      throw error
    } finally {
      account.underWay--
      for (const go of account.waiting.splice(0)) go()
    }
  }

  /** Takes one of the quota as soon as possible. Returns the limit once it is certain that it is reached. */
  async #take(orgId: string): Promise<Account | number> {
    for (;;) {
      this.#options.leadership.require()
      const account = this.#account(orgId)
      const trusted = account.reading === undefined && performance.now() < account.trustedUntil
      if (trusted && account.free > 0) {
        account.free--
        account.underWay++
        return account
      }
      if (trusted && account.underWay > 0) await new Promise<void>((go) => account.waiting.push(go))
      else if (trusted && account.exact) return account.limit
      else await this.#read(orgId, account)
    }
  }

  /** A count of an earlier term is not used. */
  #account(orgId: string): Account {
    const epoch = this.#options.leadership.term?.epoch ?? 0
    const known = this.#accounts.get(orgId)
    if (known?.epoch === epoch) return known
    const none = { limit: 0, hasQuotas: false, free: 0, exact: false, underWay: 0, trustedUntil: 0, reading: undefined }
    const account: Account = { ...none, epoch, waiting: [] }
    this.#accounts.set(orgId, account)
    return account
  }

  /** Counts once for all creates that wait for it. */
  #read(orgId: string, account: Account): Promise<void> {
    account.reading ??= this.#count(orgId, account).finally(() => {
      account.reading = undefined
    })
    return account.reading
  }

  /** A create in flight may be counted twice, as a row and in memory, but is never missed. */
  async #count(orgId: string, account: Account): Promise<void> {
    const { underWay } = account
    account.trustedUntil = Number.POSITIVE_INFINITY
    try {
      const { limit, desktops, hasQuotas } = await this.#options.read(orgId)
      // The time counts from the end of the read, so that a slow count is still used by the creates that waited for it.
      if (account.trustedUntil > 0) account.trustedUntil = performance.now() + (this.#options.trustMs ?? 1_000)
      Object.assign(account, { limit, hasQuotas, free: limit - desktops - underWay, exact: underWay === 0 })
    } catch (error) {
      distrust(account)
      throw error
    }
  }
}

function distrust(account: Account): void {
  account.trustedUntil = 0
}

// How many desktops each organisation may have. Only the leader makes desktops, so it counts in memory what it has under
// way, beside what it has read of the database: a create below the quota takes no lock. Knows no HTTP and no table.
import type { Leadership } from '../leadership/leadership.ts'

export interface QuotaOptions {
  leadership: Pick<Leadership, 'require' | 'term'>
  /** What the organisation may have, and what it has, counted up to that. */
  read(orgId: string): Promise<{ limit: number; desktops: number }>
  /** How long a reading counts; a limit that an operator changes holds after that. */
  trustMs?: number
}

/** The room of one organisation, as the leader of one term knows it. */
interface Account {
  epoch: number
  limit: number
  /** Places that nobody has taken: never too many, and too few where it was read while creates were under way. */
  free: number
  exact: boolean
  underWay: number
  trustedUntil: number
  reading: Promise<void> | undefined
  /** Those who wait for a create that is under way to end. */
  waiting: (() => void)[]
}

export class Quota {
  readonly #options: QuotaOptions
  readonly #accounts = new Map<string, Account>()

  constructor(options: QuotaOptions) {
    this.#options = options
  }

  /** One of its desktops was destroyed: what was read before is not true any more. */
  freed(orgId: string): void {
    const account = this.#accounts.get(orgId)
    if (account) distrust(account)
  }

  /** Makes a desktop where there is room; where there is none `full` answers, who is told the limit. */
  async within<T extends { made: boolean }>(
    orgId: string,
    make: () => Promise<T>,
    full: (limit: number) => Promise<T>,
  ): Promise<T> {
    const account = await this.#take(orgId)
    if (typeof account === 'number') return full(account)
    try {
      const done = await make()
      if (!done.made) account.free++
      return done
    } catch (error) {
      // It may have been made all the same: the database is asked.
      distrust(account)
      throw error
    } finally {
      account.underWay--
      for (const go of account.waiting.splice(0)) go()
    }
  }

  /** Takes a place as soon as there is one; answers the limit once it is certain that there is none. */
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

  /** What another term has counted says nothing of this one. */
  #account(orgId: string): Account {
    const epoch = this.#options.leadership.term?.epoch ?? 0
    const known = this.#accounts.get(orgId)
    if (known?.epoch === epoch) return known
    const none = { limit: 0, free: 0, exact: false, underWay: 0, trustedUntil: 0, reading: undefined }
    const account: Account = { ...none, epoch, waiting: [] }
    this.#accounts.set(orgId, account)
    return account
  }

  /** One reading for all who come meanwhile. */
  #read(orgId: string, account: Account): Promise<void> {
    account.reading ??= this.#count(orgId, account).finally(() => {
      account.reading = undefined
    })
    return account.reading
  }

  /** What is under way may be counted twice, as a row and as a place that is taken, but never not at all. */
  async #count(orgId: string, account: Account): Promise<void> {
    const { underWay } = account
    account.trustedUntil = Number.POSITIVE_INFINITY
    try {
      const { limit, desktops } = await this.#options.read(orgId)
      // From now on: a reading that takes long is still of use to those who waited for it.
      if (account.trustedUntil > 0) account.trustedUntil = performance.now() + (this.#options.trustMs ?? 1_000)
      Object.assign(account, { limit, free: limit - desktops - underWay, exact: underWay === 0 })
    } catch (error) {
      distrust(account)
      throw error
    }
  }
}

function distrust(account: Account): void {
  account.trustedUntil = 0
}

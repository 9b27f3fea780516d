// Holds creates and changes of labels to the quotas by selector, exactly: what a quota may count is counted one at a time for each
// organisation. Knows no HTTP.
import { type Labels, matches, refusals, refuse } from '@dormouse/contract'
import { KeyedMutex, together } from '@dormouse/process'
import type { Db, Pool } from '../db/pool.ts'
import type { BeginCheck, LabelRules } from '../desktops/label-rules.ts'
import * as store from './store.ts'

/** A change that has to be counted came outside its turn. */
class NotInTurn extends Error {
  override readonly name = 'NotInTurn'
}

export class QuotaGate implements LabelRules {
  readonly #pool: Pool
  /** Those that wait for their organisation hold no connection. The lock in the database is what makes it exact. */
  readonly #turns = new KeyedMutex()

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async create<T>(orgId: string, labels: Labels, transact: (begin?: BeginCheck) => Promise<T>): Promise<T> {
    const quotas = await store.list(this.#pool, orgId)
    if (entered(quotas, null, labels).length === 0) return transact()
    return this.#turns.run(orgId, () => transact(counting(orgId)))
  }

  /** Most changes of labels enter no quota, which is known only once the desktop is read. */
  async change<T>(orgId: string, transact: (begin: BeginCheck) => Promise<T>): Promise<T> {
    try {
      return await transact(looking(orgId))
    } catch (error) {
      if (!(error instanceof NotInTurn)) throw error
      return this.#turns.run(orgId, () => transact(counting(orgId)))
    }
  }
}

/** Throws `NotInTurn` if a quota has to be counted. */
const looking =
  (orgId: string): BeginCheck =>
  async (tx: Db) => {
    const quotas = await store.list(tx, orgId)
    return async (before, after) => {
      if (entered(quotas, before, after).length > 0) throw new NotInTurn()
    }
  }

/** Locks the organisation, so that nothing else is counted until the transaction has ended. */
const counting =
  (orgId: string): BeginCheck =>
  async (tx: Db) => {
    const [, quotas] = await together([store.lockOrg(tx, orgId), store.list(tx, orgId)])
    return async (before, after) => {
      const those = entered(quotas, before, after)
      const full = await together(those.map((quota) => store.isFull(tx, orgId, quota)))
      const at = full.indexOf(true)
      if (at >= 0) refuseBeyond(those[at]!)
    }
  }

/** The quotas that select the desktop with its new labels, and did not before. */
const entered = (quotas: readonly store.Quota[], before: Labels | null, after: Labels): store.Quota[] =>
  quotas.filter(({ selector }) => matches(selector, after) && !(before && matches(selector, before)))

function refuseBeyond({ name: quota, maxDesktops: limit }: store.Quota): never {
  refuse('quota_exceeded', refusals.quota_exceeded.detail({ limit, quota }), { quota })
}

// What may refuse a desktop because of its labels. Another module decides that; here is what it is asked, and when.
import type { Labels } from '@dormouse/contract'
import type { Db } from '../db/pool.ts'

/** To be called before the desktop gets the labels `after`, in the same transaction. Refuses. A new desktop has none before. */
export type LabelCheck = (before: Labels | null, after: Labels) => Promise<void>

/** Begins the check. Its statements can share the round trip of the transaction's first ones. */
export type BeginCheck = (tx: Db) => Promise<LabelCheck>

export interface LabelRules {
  /** Runs the transaction that creates a desktop with these labels. Without `begin`, nothing has to be checked. */
  create<T>(orgId: string, labels: Labels, transact: (begin?: BeginCheck) => Promise<T>): Promise<T>
  /** Runs a transaction that changes labels. It may be rolled back and run a second time. */
  change<T>(orgId: string, transact: (begin: BeginCheck) => Promise<T>): Promise<T>
}

const unchecked: BeginCheck = async () => async () => undefined

/** Allows all labels. */
export const noLabelRules: LabelRules = {
  create: (_orgId, _labels, transact) => transact(),
  change: (_orgId, transact) => transact(unchecked),
}

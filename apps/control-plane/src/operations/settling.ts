// The transaction that settles an operation: its outcome and the state of what it acts on, together. Knows no step.
import { together } from '@dormouse/process'
import { isGuardFailure } from '../db/guards.ts'
import type { Db } from '../db/pool.ts'
import type { Leadership } from '../leadership/leadership.ts'
import type { Findings, OperationDefinition, SettleContext } from './definition.ts'
import type { Failure } from './failures.ts'
import type { OperationRow } from './store.ts'
import * as store from './store.ts'

/** Stores a success, in one round trip if the operation's kind can. Throws `Abandoned` if it has settled meanwhile. */
export async function storeSuccess(
  leadership: Leadership,
  definition: OperationDefinition,
  row: OperationRow<object, Findings>,
): Promise<OperationRow> {
  const settled = await succeedAtOnce(leadership, definition, row)
  if (settled) return settled
  return settleLocked(leadership, definition, row, async (tx, context, live) => {
    const writing = definition.succeeded(tx, context)
    const settling = store.settleSucceeded(tx, row.id, definition.resultOf(row), row.findings)
    return (await together([live, writing, settling]))[2]
  })
}

/** Stores a failure, or removes the operation if nothing is to be left of it. A request that waits behind it is kept. */
export async function storeFailure(
  tx: Db,
  definition: OperationDefinition,
  row: OperationRow<object, Findings>,
  failure: Failure,
): Promise<OperationRow> {
  const failed = await store.settleFailed(tx, row.id, failure, row.findings)
  if (definition.vanishes?.(row, failure)) await store.removeUnlessAwaited(tx, row.id)
  return failed
}

/** Undefined if a guard fails: the statements after the locks find the reason. */
async function succeedAtOnce(
  leadership: Leadership,
  definition: OperationDefinition,
  row: OperationRow<object, Findings>,
): Promise<OperationRow | undefined> {
  if (!definition.succeededAtOnce) return undefined
  try {
    return await leadership.transactionAtOnce(async (tx, { epoch }) => {
      const result = definition.resultOf(row)
      const writing = definition.succeededAtOnce?.(tx, { operation: row, epoch })
      const settling = store.settleSucceeded(tx, row.id, result, row.findings)
      return (await together([Promise.resolve(writing), settling]))[1]
    })
  } catch (error) {
    if (isGuardFailure(error)) return undefined
    throw error
  }
}

/**
 * Settles behind the locks of what the operation acts on and of the operation itself. `live` rejects with `Abandoned` if it has
 * settled meanwhile. `write` may send statements behind the locks before it resolves.
 */
export function settleLocked(
  leadership: Leadership,
  definition: OperationDefinition,
  row: OperationRow<object, Findings>,
  write: (tx: Db, context: SettleContext, live: Promise<unknown>) => Promise<OperationRow>,
): Promise<OperationRow> {
  return leadership.transaction((tx, { epoch }) => {
    const live = together([definition.lock(tx, row), store.requireLive(tx, row.id)])
    return write(tx, { operation: row, epoch }, live)
  })
}

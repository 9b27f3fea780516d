// Reads all that a drain is judged by, as one snapshot.
import type { Db, Pool } from '../db/pool.ts'
import { snapshot, transaction } from '../db/transactions.ts'
import * as desktops from '../desktops/store.ts'
import { arrivingAt } from '../hosts/reservations.ts'
import * as operations from '../operations/store.ts'
import type { View } from './judge.ts'
import type { DrainRow } from './store.ts'
import * as store from './store.ts'

/** Undefined if there is no such drain. */
export function readView(pool: Pool, id: string): Promise<View | undefined> {
  const read = async (tx: Db) => {
    const drain = await store.find(tx, id)
    return drain && viewOf(tx, drain, await store.desktopsOf(tx, id))
  }
  return transaction(pool, read, { begin: snapshot })
}

/** The view of a drain that has not begun: a plan. */
export function readPlanned(pool: Pool, drain: DrainRow): Promise<View> {
  return transaction(pool, (tx) => viewOf(tx, drain, []), { begin: snapshot })
}

async function viewOf(tx: Db, drain: DrainRow, rows: store.DrainedDesktop[]): Promise<View> {
  const present = drain.settledAt === null ? await desktops.boundTo(tx, drain.hostId) : []
  const known = new Map(rows.map((row) => [row.desktopId, row]))
  const left = [...known.keys()]
  const all = new Map([...(await desktops.findMany(tx, left)), ...present].map((row) => [row.id, row]))
  const awaited = rows.flatMap(({ status, operationId }) => (status === 'working' && operationId ? [operationId] : []))
  return {
    drain,
    known,
    desktops: all,
    busy: await operations.liveAmong(tx, [...all.keys()]),
    operations: new Map((await operations.readMany(tx, awaited)).map((row) => [row.id, row])),
    arriving: await arrivingAt(tx, drain.hostId),
  }
}

// Every statement that changes a desktop's state. Each changes it only from the states that `states.ts` allows; otherwise it
// reports the state that it found.

import type { DesktopState, RefusalCode, RequestKind } from '@dormouse/contract'
import { together } from '@dormouse/process'
import { atLeastOne } from '../db/guards.ts'
import type { Db } from '../db/pool.ts'
import * as ledger from '../ledger/store.ts'
import { StateMismatch } from '../operations/definition.ts'
import { type SettledBy, sourcesOf, transitions } from './states.ts'
import { columns, type DesktopRow } from './store.ts'

/**
 * Begins a transition: moves the desktop into its state in progress and takes the next turn. A wake begins a new generation,
 * which supersedes the previous one. Fails if the state does not allow it, so the caller checks first.
 */
export async function begin(db: Db, id: string, kind: RequestKind, generationId: string | null): Promise<void> {
  const { from, via } = transitions[kind]
  await db.query({
    name: `desktops-begin-${kind}`,
    text: `with moved as (
             update desktops set state = $2, failure_code = null, turn = turn + 1, updated_at = clock_timestamp(),
               generation = generation + $4, current_generation_id = coalesce($5, current_generation_id)
             where id = $1 and state = any($3) returning id, generation),
           begun as (
             insert into generations (id, desktop_id, generation)
             select $5, id, generation from moved where $5::uuid is not null),
           superseded as (
             update generations g set superseded_at = clock_timestamp() from moved
             where $5::uuid is not null and g.desktop_id = moved.id and g.generation = moved.generation - 1)
           select ${atLeastOne('moved')}`,
    values: [id, via, from, kind === 'wake' ? 1 : 0, generationId],
  })
}

/** Takes the next turn for a request that changes no state. The caller has locked the row. */
export async function takeTurn(db: Db, id: string): Promise<void> {
  await db.query('update desktops set turn = turn + 1, updated_at = clock_timestamp() where id = $1', [id])
}

/**
 * Decides a move: the desktop and its billing belong to the new host from the next turn on. The state stays. The caller has
 * locked the row.
 */
export async function moveTo(db: Db, id: string, hostId: string, operationId: string): Promise<void> {
  await together([
    db.query('update desktops set host_id = $2, turn = turn + 1, updated_at = clock_timestamp() where id = $1', [
      id,
      hostId,
    ]),
    ledger.moveTo(db, id, hostId, operationId),
  ])
}

/**
 * Records in the ledger that a desktop that counts as awake is hibernated for a while, or awake again. Its state stays. The
 * caller has locked the row.
 */
export async function billAs(db: Db, id: string, kind: ledger.UsageKind, operationId: string): Promise<void> {
  await together([
    db.query('update desktops set updated_at = clock_timestamp() where id = $1', [id]),
    ledger.follow(db, id, kind, { operationId, livedUntilNow: true }),
  ])
}

export interface Settlement {
  by: Exclude<SettledBy, 'removal'>
  /** The operation that settles the desktop; null for a correction. */
  operationId: string | null
  /** The host's success proves that the guest lived until now. Otherwise its last proof of life counts. */
  livedUntilNow?: boolean
  /** The commit is sent right behind: a mismatch fails the statement, and `isGuardFailure` recognises its error. */
  atOnce?: boolean
}

/**
 * Settles the desktop in a state and the ledger with it, so that what is billed and what is shown agree. Throws
 * `StateMismatch` and changes nothing if the desktop is in a state from which this cause may not settle it so.
 */
export async function settle(db: Db, id: string, to: DesktopState, settlement: Settlement): Promise<void> {
  const { by, operationId, livedUntilNow = false, atOnce = false } = settlement
  const from = sourcesOf(by, to)
  const text = `update desktops set state = $2, failure_code = null, updated_at = clock_timestamp()
           where id = $1 and state = any($3)`
  const update = db.query({
    ...(atOnce
      ? {
          name: 'desktops-settle-at-once',
          text: `with settled as (${text} returning 1) select ${atLeastOne('settled')}`,
        }
      : { name: 'desktops-settle-state', text }),
    values: [id, to, from],
  })
  const [{ rowCount }] = await together([update, ledger.follow(db, id, to, { operationId, livedUntilNow })])
  if (rowCount !== 1) throw await mismatch(db, [id], by, to)
}

export interface Loss {
  code: RefusalCode
  /** Billing ends at this time at the latest; null for now. */
  provedUntil: Date | null
}

/** Marks desktops as failed because their only disk is lost: billing ends, and they cannot be woken. */
export async function failAll(db: Db, ids: string[], { code, provedUntil }: Loss): Promise<void> {
  const { rowCount } = await db.query(
    `update desktops set state = 'failed', failure_code = $2, updated_at = clock_timestamp()
     where id = any($1) and state = any($3)`,
    [ids, code, sourcesOf('removal', 'failed')],
  )
  if (rowCount !== ids.length) throw await mismatch(db, ids, 'removal', 'failed')
  await ledger.closeAll(db, ids, provedUntil)
}

/** Desktops that failed with a lost host stay failed, because the host is now removed for good. */
export async function failForGood(db: Db, hostId: string): Promise<void> {
  await db.query(
    `update desktops set failure_code = 'host_removed', updated_at = clock_timestamp()
     where host_id = $1 and state = 'failed' and failure_code = 'host_lost'`,
    [hostId],
  )
}

/**
 * Takes the next turn of desktops that failed with a lost host, for the command that ends what is left of their guests there.
 */
export async function takeTurnOfLost(db: Db, hostId: string): Promise<DesktopRow[]> {
  const { rows } = await db.query<DesktopRow>(
    `update desktops set turn = turn + 1, updated_at = clock_timestamp() where id in (
       select id from desktops where host_id = $1 and state = 'failed' and failure_code = 'host_lost' order by id for update)
     returning ${columns}`,
    [hostId],
  )
  return rows
}

/** Unbinds desktops that left nothing of their own on the host: the next wake may choose another. */
export async function unbindAll(db: Db, ids: string[]): Promise<void> {
  const { rowCount } = await db.query(
    `update desktops set state = 'created', host_id = null, made_from = null, updated_at = clock_timestamp()
     where id = any($1) and state = any($2)`,
    [ids, sourcesOf('removal', 'created')],
  )
  if (rowCount !== ids.length) throw await mismatch(db, ids, 'removal', 'created')
}

/** Reads back the states that were found instead. */
async function mismatch(db: Db, ids: string[], by: SettledBy, to: DesktopState): Promise<StateMismatch> {
  const from = sourcesOf(by, to)
  const { rows } = await db.query<{ id: string; state: DesktopState }>(
    'select id, state from desktops where id = any($1) and state <> all($2) order by id limit 5',
    [ids, by === 'removal' ? [...from, to] : from],
  )
  const found = rows.map(({ id, state }) => `desktop ${id} is ${state}`).join(', ') || 'the desktop does not exist'
  return new StateMismatch(`${found}; a ${by} may make it ${to} from ${from.join(', ') || 'no state'}`)
}

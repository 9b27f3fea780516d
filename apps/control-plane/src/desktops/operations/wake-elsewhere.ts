// A wake whose desktop sleeps on a host that is cordoned or full: it moves first, and then wakes on the new host. The move is
// part of the wake, and its decision takes the turn after the wake's own.
import { isOvertaken, Refusal } from '@dormouse/contract'
import type { Db } from '../../db/pool.ts'
import type { Position, SettleContext, StepContext } from '../../operations/definition.ts'
import type { Findings } from '../../operations/findings.ts'
import { defer } from '../deferred.ts'
import * as carry from './carry.ts'
import { type CarryContext, carried } from './carry.ts'
import { fenceOf, inputOf } from './input.ts'

/** Whether the wake moves the desktop first. */
export const movesFirst = ({ findings }: Pick<Position, 'findings'>): boolean =>
  carried.parse(findings).to !== undefined

/** The fence of what a wake asks of the host on which the desktop wakes. */
export const fenceThere = (context: Pick<StepContext, 'operation' | 'epoch' | 'remainingMs' | 'findings'>) => {
  const fence = fenceOf(context)
  return { ...fence, turn: fence.turn + (movesFirst(context) ? 1 : 0) }
}

/** Undefined where no other host can take it. `mayRelay`: also a host that only a relay reaches. */
export async function placeElsewhere(
  deps: CarryContext,
  context: StepContext,
  { from, mayRelay }: { from: string; mayRelay: boolean },
): Promise<Findings | undefined> {
  const { vcpus, memoryMiB } = inputOf(context).spec
  try {
    return await carry.placeAway(deps, context, { from, to: null, kind: 'cold', vcpus, memoryMiB, mayRelay })
  } catch (error) {
    if (!(error instanceof Refusal) || isOvertaken(error, 'leader')) throw error
    return undefined
  }
}

/** Moves the desktop, up to the decision. The old host removes its part as soon as it can. */
export async function bring(deps: CarryContext, context: StepContext): Promise<Findings> {
  const from = inputOf(context).hostId!
  const { desktopId, generation, turn, id: operationId } = context.operation
  let now = context
  const add = (found: Findings) => {
    now = { ...now, findings: { ...now.findings, ...found } }
  }
  // Where this is repeated behind the decision, nothing is left to do.
  if (await deps.leadership.transaction((tx) => carry.isDecided(tx, desktopId, context.findings))) return {}
  add(await carry.begin(deps, now, from))
  add(await carry.send(deps, now, from))
  add(await carry.arrive(deps, now))
  const advance = async (tx: Db, found: Findings) => {
    const release = {
      desktopId,
      hostId: from,
      command: 'move.release',
      generation,
      turn: turn + 1,
      operationId,
    } as const
    await defer(tx, release)
    await context.advance(tx, found)
  }
  await carry.decide(deps, { ...now, advance }, from)
  return {}
}

/** The new host takes the desktop as its own. */
export async function settleThere({ links }: CarryContext, context: StepContext): Promise<Findings> {
  const { to, settled } = carried.parse(context.findings)
  if (!to || settled) return {}
  const { signal, remainingMs } = context
  const payload = { fence: fenceThere(context) }
  const { state } = await links.command(to, 'move.settle', payload, { signal, timeoutMs: Math.ceil(remainingMs) })
  return { settled: state }
}

/** Undo of `bring`: undefined where the move was decided, and what runs on the new host is to be undone. */
export async function sendBack(deps: CarryContext, context: StepContext): Promise<Findings | undefined> {
  const { desktopId } = context.operation
  if (await deps.leadership.transaction((tx) => carry.isDecided(tx, desktopId, context.findings))) return undefined
  const abandoned = await carry.abandon(deps, context)
  return { ...abandoned, ...(await carry.keep(deps, context, inputOf(context).hostId!)) }
}

/**
 * What a failed wake leaves to its hosts where it has begun to move the desktop. `undone` says whether its undos were done.
 * Answers what became of the move.
 */
export async function settleFailedMove(
  deps: CarryContext,
  tx: Db,
  context: SettleContext,
  undone: boolean,
): Promise<'none' | 'decided' | 'taken back'> {
  const { operation, findings } = context
  const { desktopId, turn } = operation
  const { to, settled, kept, abandoned } = carried.parse(findings)
  if (!to) return 'none'
  const later = (hostId: string, command: 'move.settle' | 'move.abandon' | 'move.keep', raised: number) =>
    carry.later(deps, tx, operation, hostId, command, turn + raised)
  if (await carry.isDecided(tx, desktopId, findings)) {
    if (!settled) await later(to, 'move.settle', 1)
    return 'decided'
  }
  await deps.hosts.dropArrival(tx, desktopId)
  if (abandoned === 'deferred' || !undone) await later(to, 'move.abandon', 0)
  if (kept === 'deferred' || !undone) await later(inputOf({ operation }).hostId!, 'move.keep', 0)
  return 'taken back'
}

// A move of an awake desktop as files: it is hibernated on its old host and woken on the new one. A live move that does not
// converge goes on like this. The desktop counts as awake all the while; the ledger knows when it was hibernated.
import { type Fence, isOvertaken, moveMode, Refusal, refusalWithCause, refuse } from '@dormouse/contract'
import { together } from '@dormouse/process'
import { z } from 'zod'
import type { UsageKind } from '../../ledger/store.ts'
import type { Position, SettleContext, StepContext } from '../../operations/definition.ts'
import type { Findings } from '../../operations/failures.ts'
import { retake } from '../../operations/store.ts'
import { startGeneration } from '../generations.ts'
import { billAs, takeTurn } from '../state-changes.ts'
import { lockAny } from '../store.ts'
import { afterMove } from './after-move.ts'
import * as carry from './carry.ts'
import { type AsleepResult, asleepResult } from './failed-wake.ts'
import { cannotBeDoneNow, commandOptions, fenceOf, inputOf } from './input.ts'

type Deps = carry.CarryContext

const input = z.object({ mode: moveMode })

const findings = carry.carried.extend({
  /** Why the live move was given up. */
  gaveUpLive: z.string().optional(),
  /** The old host has saved its memory for this move. */
  saved: z.boolean().optional(),
  /** What the new host has of it after a wake that failed. */
  asleep: asleepResult.optional(),
})
export const foundOf = (context: Pick<Position, 'findings'>) => findings.parse(context.findings)

/** A wake has so long at least, whatever is left of the move's deadline. A host that dies is noticed before. */
const wakeMs = 180_000
const tidyMs = 30_000

const wasAwake = (operation: Pick<Position, 'input'>): boolean => inputOf({ operation }).from === 'awake'

/** Whether the desktop is awake and is hibernated for the move. */
export const hibernates = (operation: Pick<Position, 'input' | 'findings'>): boolean =>
  wasAwake(operation) &&
  (input.parse(operation.input).mode === 'hibernate' || foundOf(operation).gaveUpLive !== undefined)

/** Whether its memory is still to be saved. */
export const isToBeSaved = (operation: Pick<Position, 'input' | 'findings'>): boolean =>
  hibernates(operation) && !foundOf(operation).saved

/** The old host holds the desktop for the move; hibernated before where that is how it moves. */
export async function begin(deps: Deps, context: StepContext, from: string): Promise<Findings> {
  if (isToBeSaved(context.operation)) await save(deps, context, from)
  return carry.begin(deps, context, from)
}

async function save(deps: Deps, context: StepContext, from: string): Promise<void> {
  const ask = () =>
    deps.links.command(from, 'desktop.ensureHibernated', { fence: fenceOf(context) }, commandOptions(context))
  await afterMove(deps, context, from, ask)
  await bill(deps, context, 'hibernated', { saved: true })
}

/** Stores together what the desktop is from now on in the ledger, and what the step has found. */
async function bill(deps: Deps, context: StepContext, kind: UsageKind, found: Findings, wokenOn?: string) {
  const { desktopId, generationId, id } = context.operation
  await deps.leadership.transaction(async (tx) => {
    await lockAny(tx, desktopId)
    const started = wokenOn && generationId ? startGeneration(tx, generationId, wokenOn) : undefined
    await together([billAs(tx, desktopId, kind, id), Promise.resolve(started), context.note(tx, found)])
  })
  Object.assign(context.findings, found)
}

/** Sends everything. A guest that changes faster than it can be sent is hibernated, and sent as files. */
export async function send(deps: Deps, context: StepContext, from: string): Promise<Findings> {
  const isLive = () => foundOf(context).kind === 'live'
  if (isLive() && !foundOf(context).gaveUpLive) {
    try {
      return await carry.send(deps, context, from)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'move_not_converging') throw error
      await note(deps, context, { gaveUpLive: error.extra.cause ?? error.detail })
    }
  }
  if (isLive()) await takeLiveBack(deps, context, from)
  // The handoff of a live move is none of these files.
  const gaveUp = foundOf(context).gaveUpLive !== undefined
  if (gaveUp) Object.assign(context.findings, await begin(deps, context, from))
  return carry.send(deps, context, from)
}

async function note(deps: Deps, context: StepContext, found: Findings): Promise<void> {
  await deps.leadership.transaction(async (tx) => {
    await lockAny(tx, context.operation.desktopId)
    await context.note(tx, found)
  })
  Object.assign(context.findings, found)
}

/** Both hosts go back to where they were before. What follows takes the next turn: in this one they would refuse it. */
async function takeLiveBack(deps: Deps, context: StepContext, from: string): Promise<void> {
  const { abandoned } = await carry.abandon(deps, context)
  const { kept } = await carry.keep(deps, context, from)
  if (abandoned !== 'done' || kept !== 'awake')
    throw new Refusal('move_not_converging', undefined, { cause: `${foundOf(context).gaveUpLive}; its hosts changed` })
  await nextTurn(deps, context, { kind: 'cold' })
}

/** What was undone in a turn is refused in it by its host. */
async function nextTurn(deps: Deps, context: StepContext, found: Findings): Promise<void> {
  const { operation } = context
  const turn = operation.turn + 1
  const stored = { ...context.findings, ...found }
  await deps.leadership.transaction(async (tx) => {
    const row = await lockAny(tx, operation.desktopId)
    await retake(tx, { id: operation.id, turn, findings: stored })
    // The same where the answer to an earlier commit of this was lost.
    if (row?.turn === operation.turn) await takeTurn(tx, operation.desktopId)
    else if (row?.turn !== turn) refuse('superseded', 'a later request came before the move was decided')
  })
  Object.assign(context.findings, found)
  operation.turn = turn
}

/** The new host takes the desktop as its own, and wakes it where it was hibernated for the move. */
export async function settle(deps: Deps, context: StepContext): Promise<Findings> {
  const found = await carry.settle(deps, context)
  if (!hibernates(context.operation) || found.settled === 'stopped') return found
  if (found.settled === 'deferred') throw refusalWithCause('hypervisor_failed', `it could not be woken: ${found.why}`)
  Object.assign(context.findings, found)
  const { to } = foundOf(context)
  const waking = wakeTime(context)
  await wake(deps, waking, to!, carry.decidedFence(waking))
  await bill(deps, context, 'awake', { settled: 'awake' }, to)
  return {}
}

/** Whether it was hibernated for the move, and does not run on the new host. */
export function isAsleepThere(operation: Pick<Position, 'input' | 'findings'>): boolean {
  const { settled } = foundOf(operation)
  return hibernates(operation) && settled !== 'awake' && settled !== 'stopped'
}

const wakeTime = (context: StepContext): StepContext => ({
  ...context,
  remainingMs: Math.max(context.remainingMs, wakeMs),
})

/** From the memory that was saved for the move. */
async function wake({ links }: Deps, context: StepContext, hostId: string, fence: Fence): Promise<void> {
  const { spec } = inputOf(context)
  const payload = { fence, spec, source: { memory: 'require', disk: 'require' } } as const
  await links.command(hostId, 'desktop.ensureAwake', payload, commandOptions(context))
}

/** Lets the new host remove the spent memory image. If this command is lost, the next inventory removes it. */
export async function tidy({ links }: Deps, context: SettleContext): Promise<void> {
  if (!hibernates(context.operation)) return
  const fence = carry.decidedFence({ ...context, remainingMs: tidyMs })
  await links.command(foundOf(context).to!, 'desktop.tidy', { fence }, { timeoutMs: tidyMs })
}

/** Undo of `begin`: the desktop goes on where it was, and what was hibernated for the move is woken there. */
export async function keep(deps: Deps, context: StepContext, from: string): Promise<Findings> {
  const { kept } = await carry.keep(deps, context, from)
  if (kept === 'awake' && foundOf(context).saved) await bill(deps, context, 'awake', { kept })
  if (kept !== 'hibernated' || !wasAwake(context.operation)) return { kept }
  await nextTurn(deps, context, {})
  const waking = wakeTime(context)
  try {
    await wake(deps, waking, from, fenceOf(waking))
  } catch (error) {
    if (!(error instanceof Refusal) || isOvertaken(error, 'leader')) throw error
    const asleep = await sleepOn(deps, context, from, fenceOf(context))
    return { kept: asleep === 'deferred' ? kept : stateOf(asleep), asleep, why: error.extra.cause ?? error.detail }
  }
  await bill(deps, context, 'awake', { kept: 'awake' })
  return {}
}

/** Undo of `settle`: what could not be woken on the new host sleeps there. */
export async function sleepThere(deps: Deps, context: StepContext): Promise<Findings> {
  const { to, settled } = foundOf(context)
  if (!isAsleepThere(context.operation)) return {}
  // It was perhaps never taken as its own there, and must be first.
  if (settled === undefined) return { asleep: 'deferred' }
  return { asleep: await sleepOn(deps, context, to!, carry.decidedFence(context)) }
}

async function sleepOn({ links }: Deps, context: StepContext, hostId: string, fence: Fence): Promise<AsleepResult> {
  try {
    return await links.command(hostId, 'desktop.ensureAsleep', { fence }, commandOptions(context))
  } catch (error) {
    if (cannotBeDoneNow(error)) return 'deferred'
    throw error
  }
}

/** What was awake has a disk. */
export const stateOf = ({ state }: Exclude<AsleepResult, 'deferred'>) => (state === 'hibernated' ? state : 'stopped')

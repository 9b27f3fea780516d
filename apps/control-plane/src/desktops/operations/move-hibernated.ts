// A move of an awake desktop as files: it is hibernated on its old host and woken on the new one. A live move that does not
// converge continues like this. The desktop counts as awake meanwhile; the ledger records when it was hibernated.
import { type Fence, isOvertaken, Refusal, refusalWithCause, refuse } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { UsageKind } from '../../ledger/store.ts'
import { requireFound } from '../../operations/definition.ts'
import { retake } from '../../operations/store.ts'
import { startGeneration } from '../generations.ts'
import { withShares } from '../shares.ts'
import { billAs, takeTurn } from '../state-changes.ts'
import { lockAny } from '../store.ts'
import { afterMove } from './after-move.ts'
import type { Move, MovePosition } from './carry.ts'
import * as carry from './carry.ts'
import { cannotBeDoneNow, commandOptions, fenceOf } from './fence.ts'
import type { Asleep, MoveFindings } from './stored.ts'

type Deps = carry.CarryContext

/** The wake gets at least this long, whatever is left of the move's deadline. A dead host is noticed sooner. */
const wakeMs = 180_000
const tidyMs = 30_000

/** Whether this move hibernates an awake desktop. */
export const hibernates = ({ input, findings }: MovePosition): boolean =>
  input.from === 'awake' && (input.mode === 'hibernate' || findings.gaveUpLive !== undefined)

/** Whether its memory is still to be saved. */
export const isToBeSaved = (operation: MovePosition): boolean => hibernates(operation) && !operation.findings.saved

/** Makes the old host hold the desktop for the move; hibernates it first if it moves that way. */
export async function begin(deps: Deps, context: Move): Promise<MoveFindings> {
  if (isToBeSaved(context.operation)) await save(deps, context)
  return carry.begin(deps, context)
}

async function save(deps: Deps, context: Move): Promise<void> {
  const from = context.operation.input.hostId
  const ask = () =>
    deps.links.command(from, 'desktop.ensureHibernated', { fence: fenceOf(context) }, commandOptions(context))
  await afterMove(deps, context, from, ask)
  await bill(deps, context, 'hibernated', { saved: true })
}

/** Writes the ledger's new state and the step's findings in one transaction. */
async function bill(deps: Deps, context: Move, kind: UsageKind, found: MoveFindings, wokenOn?: string) {
  const { desktopId, generationId, id, findings } = context.operation
  await deps.leadership.transaction(async (tx) => {
    await lockAny(tx, desktopId)
    const started = wokenOn && generationId ? startGeneration(tx, generationId, wokenOn) : undefined
    await together([billAs(tx, desktopId, kind, id), Promise.resolve(started), context.note(tx, found)])
  })
  Object.assign(findings, found)
}

/** Sends everything. If the guest changes faster than it can be sent, hibernates it and sends it as files. */
export async function send(deps: Deps, context: Move): Promise<MoveFindings> {
  const { findings } = context.operation
  if (findings.kind === 'live' && !findings.gaveUpLive) {
    try {
      return await carry.send(deps, context)
    } catch (error) {
      if (!(error instanceof Refusal) || error.code !== 'move_not_converging') throw error
      await note(deps, context, { gaveUpLive: error.extra.cause ?? error.detail })
    }
  }
  if (findings.kind === 'live') await takeLiveBack(deps, context)
  // The files have a handoff of their own; that of the live move does not describe them.
  if (findings.gaveUpLive !== undefined) Object.assign(findings, await begin(deps, context))
  return carry.send(deps, context)
}

async function note(deps: Deps, context: Move, found: MoveFindings): Promise<void> {
  const { desktopId, findings } = context.operation
  await deps.leadership.transaction(async (tx) => {
    await lockAny(tx, desktopId)
    await context.note(tx, found)
  })
  Object.assign(findings, found)
}

/** Undoes the live move on both hosts. What follows takes the next turn, because the hosts would refuse this one. */
async function takeLiveBack(deps: Deps, context: Move): Promise<void> {
  const { abandoned } = await carry.abandon(deps, context)
  const { kept } = await carry.keep(deps, context)
  const { gaveUpLive } = context.operation.findings
  if (abandoned !== 'done' || kept !== 'awake')
    throw new Refusal('move_not_converging', undefined, { cause: `${gaveUpLive}; its hosts changed` })
  await nextTurn(deps, context, { kind: 'cold' })
}

/** Takes the next turn: a host refuses a turn in which something was undone. */
async function nextTurn(deps: Deps, context: Move, found: MoveFindings): Promise<void> {
  const { operation } = context
  const turn = operation.turn + 1
  const findings = { ...operation.findings, ...found }
  await deps.leadership.transaction(async (tx) => {
    const row = await lockAny(tx, operation.desktopId)
    await retake(tx, { id: operation.id, turn, findings })
    // If the answer to an earlier commit of this was lost, the turn may have risen already.
    if (row?.turn === operation.turn) await takeTurn(tx, operation.desktopId)
    else if (row?.turn !== turn) refuse('superseded', 'a later request came before the move was decided')
  })
  Object.assign(operation.findings, found)
  operation.turn = turn
}

/** The new host adopts the desktop, and wakes it if it was hibernated for the move. */
export async function settle(deps: Deps, context: Move): Promise<MoveFindings> {
  const found = await carry.settle(deps, context)
  if (!hibernates(context.operation) || found.settled === 'stopped') return found
  if (found.settled === 'deferred') throw refusalWithCause('hypervisor_failed', `it could not be woken: ${found.why}`)
  Object.assign(context.operation.findings, found)
  const { to } = requireFound(context.operation, 'to')
  const waking = wakeTime(context)
  await wake(deps, waking, to, carry.decidedFence(waking))
  await bill(deps, context, 'awake', { settled: 'awake' }, to)
  return {}
}

/** Whether the desktop was hibernated for the move and does not run on the new host. */
export function isAsleepThere(operation: MovePosition): boolean {
  const { settled } = operation.findings
  return hibernates(operation) && settled !== 'awake' && settled !== 'stopped'
}

const wakeTime = (context: Move): Move => ({
  ...context,
  remainingMs: Math.max(context.remainingMs, wakeMs),
})

/** Wakes the desktop from the memory that was saved for the move. */
async function wake({ links, shares }: Deps, context: Move, hostId: string, fence: Fence): Promise<void> {
  const { spec: accepted, tier } = context.operation.input
  const spec = withShares(accepted, tier, shares)
  const payload = { fence, spec, source: { memory: 'require', disk: 'require' } } as const
  await links.command(hostId, 'desktop.ensureAwake', payload, commandOptions(context))
}

/** Lets the new host remove the spent memory image. If this command is lost, the next inventory removes it. */
export async function tidy({ links }: Deps, context: Pick<Move, 'operation' | 'epoch'>): Promise<void> {
  const { operation } = context
  if (!hibernates(operation)) return
  const fence = carry.decidedFence({ ...context, remainingMs: tidyMs })
  await links.command(requireFound(operation, 'to').to, 'desktop.tidy', { fence }, { timeoutMs: tidyMs })
}

/** Undo of `begin`: the desktop stays on its host, and is woken there if it was hibernated for the move. */
export async function keep(deps: Deps, context: Move): Promise<MoveFindings> {
  const { kept } = await carry.keep(deps, context)
  const { findings, input } = context.operation
  if (kept === 'awake' && findings.saved) await bill(deps, context, 'awake', { kept })
  if (kept !== 'hibernated' || input.from !== 'awake') return { kept }
  await nextTurn(deps, context, {})
  const waking = wakeTime(context)
  try {
    await wake(deps, waking, input.hostId, fenceOf(waking))
  } catch (error) {
    if (!(error instanceof Refusal) || isOvertaken(error, 'leader')) throw error
    const asleep = await sleepOn(deps, context, input.hostId, fenceOf(context))
    return { kept: asleep === 'deferred' ? kept : stateOf(asleep), asleep, why: error.extra.cause ?? error.detail }
  }
  await bill(deps, context, 'awake', { kept: 'awake' })
  return {}
}

/** Undo of `settle`: a desktop that could not be woken on the new host sleeps there. */
export async function sleepThere(deps: Deps, context: Move): Promise<MoveFindings> {
  const { operation } = context
  if (!isAsleepThere(operation)) return {}
  // The new host may not have adopted it yet, and must do that first.
  if (operation.findings.settled === undefined) return { asleep: 'deferred' }
  return { asleep: await sleepOn(deps, context, requireFound(operation, 'to').to, carry.decidedFence(context)) }
}

async function sleepOn({ links }: Deps, context: Move, hostId: string, fence: Fence): Promise<Asleep> {
  try {
    return await links.command(hostId, 'desktop.ensureAsleep', { fence }, commandOptions(context))
  } catch (error) {
    if (cannotBeDoneNow(error)) return 'deferred'
    throw error
  }
}

/** A desktop that was awake has a disk, so it is stopped at least. */
export const stateOf = ({ state }: Exclude<Asleep, 'deferred'>) => (state === 'hibernated' ? state : 'stopped')

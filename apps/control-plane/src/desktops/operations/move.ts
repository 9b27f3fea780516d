// Move: place, begin, send, arrive, decide, settle, release. The desktop's state and generation stay. Wherever it fails, the
// desktop is whole on exactly one host, and the database says on which.
import type { DesktopState, OperationPhase, OperationResult } from '@dormouse/contract'
import { z } from 'zod'
import type { Db } from '../../db/pool.ts'
import {
  type OperationDefinition,
  type Position,
  type SettleContext,
  type Step,
  type StepContext,
  step,
} from '../../operations/definition.ts'
import type { DeferredCommand } from '../deferred.ts'
import { endGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { sourcesOf } from '../states.ts'
import { lockAny } from '../store.ts'
import * as carry from './carry.ts'
import { type CarryContext, carried } from './carry.ts'
import { inputOf } from './input.ts'
import * as saved from './move-hibernated.ts'

/** The position of the step `decide`. */
const decideAt = 4

const target = z.object({ to: z.string().nullable(), mayRelay: z.boolean().default(true) })

const fromOf = (context: { operation: Position }): string => inputOf(context).hostId!

/** If it sleeps there, it needs no processor and no memory on the new host. */
function destinationOf({ operation }: Pick<StepContext, 'operation'>): carry.Destination {
  const { from: state, spec } = inputOf({ operation })
  const isAwake = state === 'awake'
  const isToRun = isAwake || carry.begunFor(operation) !== undefined
  const needs = isToRun ? spec : { vcpus: 0, memoryMiB: 0 }
  const { to, mayRelay } = target.parse(operation.input)
  const { vcpus, memoryMiB } = needs
  const hibernates = saved.hibernates(operation)
  const kind = isAwake && !hibernates ? 'live' : 'cold'
  return { from: fromOf({ operation }), to, kind, hibernates, vcpus, memoryMiB, mayRelay }
}

const phase = (operation: Position): OperationPhase => (saved.isToBeSaved(operation) ? 'saving' : 'moving')

const stepsOf = (deps: CarryContext): Step[] => [
  step({
    name: 'place',
    phase: 'placing',
    advances: true,
    run: (context) => carry.placeAway(deps, context, destinationOf(context)),
    noUndo: 'the reservation on the new host is dropped when the operation settles',
  }),
  step({
    name: 'begin',
    phase,
    run: (context) => saved.begin(deps, context, fromOf(context)),
    undo: (context) => saved.keep(deps, context, fromOf(context)),
    deferred: { kept: 'deferred' },
  }),
  step({
    name: 'send',
    phase,
    run: (context) => saved.send(deps, context, fromOf(context)),
    undo: (context) => carry.abandon(deps, context),
    deferred: { abandoned: 'deferred' },
  }),
  step({
    name: 'arrive',
    phase: 'moving',
    run: (context) => carry.arrive(deps, context),
    noUndo: 'the undo of send removes what has arrived',
  }),
  step({
    name: 'decide',
    phase: 'moving',
    advances: true,
    run: (context) => carry.decide(deps, context, fromOf(context)),
    noUndo: 'a decision is final: the undos before it do nothing once it is stored',
  }),
  step({
    name: 'settle',
    phase: (operation) => (saved.hibernates(operation) ? 'starting' : 'moving'),
    run: (context) => saved.settle(deps, context),
    undo: (context) => saved.sleepThere(deps, context),
    deferred: { asleep: 'deferred' },
  }),
  step({
    name: 'release',
    phase: 'moving',
    run: (context) => carry.release(deps, context, fromOf(context)),
    noUndo: 'it follows the decision, and is deferred where it fails',
  }),
]

export const move = (deps: CarryContext): OperationDefinition => ({
  kind: 'move',
  // The old host does most of the work, and reports its progress. The desktop must not wait for a slot while it is paused.
  hostOf: (operation) => fromOf({ operation }),
  helperOf: ({ findings }) => carried.parse(findings).to ?? carry.fetchesOn({ findings }),
  steps: stepsOf(deps),
  precedes: () => true,
  givesWay: ({ step }) => step < decideAt,
  begunFor: carry.begunFor,
  vanishes: carry.wasFutile,
  lock: (tx, { desktopId }) => lockAny(tx, desktopId),
  succeeded: (tx, context) => settleMoved(deps, tx, context),

  resultOf({ operation, findings }) {
    const { generation, generationId } = operation
    const { to, settled, released } = carried.parse(findings)
    const state = settled === 'deferred' || settled === undefined ? inputOf({ operation }).from : settled
    const cleanup = released === 'done' ? 'done' : 'deferred'
    const result = { desktop_state: state, generation, generation_id: generationId, host_id: to ?? null, cleanup }
    return { ...result, moved: howOf(operation) }
  },

  afterwards: (context) => saved.tidy(deps, context),

  async failed(tx, context) {
    const { operation, findings } = context
    if (await carry.isDecided(tx, operation.desktopId, findings)) {
      await settleMoved(deps, tx, context)
      const { settled, asleep } = saved.foundOf(context)
      return asleep && settled !== 'awake' ? 'it has moved all the same, and is asleep' : 'it has moved all the same'
    }
    const { to, kept, abandoned, asleep } = saved.foundOf(context)
    await deps.hosts.dropArrival(tx, operation.desktopId)
    if (to && abandoned === 'deferred') await carry.later(deps, tx, operation, to, 'move.abandon', operation.turn)
    if (asleep === 'deferred')
      await carry.later(deps, tx, operation, fromOf(context), 'desktop.ensureAsleep', operation.turn)
    if (kept === 'deferred') await carry.later(deps, tx, operation, fromOf(context), 'move.keep', operation.turn)
    else await correct(deps, tx, operation, kept)
    return asleep ? 'it was hibernated for the move and could not be woken; its disk is kept' : 'it stays as it was'
  },
})

const howOf = (operation: Position): OperationResult['moved'] => {
  if (inputOf({ operation }).from !== 'awake') return 'asleep'
  return saved.hibernates(operation) ? 'hibernated' : 'live'
}

/** What could not follow the decision yet is deferred. A guest that ended on the way is stopped. */
async function settleMoved(deps: CarryContext, tx: Db, context: SettleContext): Promise<void> {
  const { operation } = context
  const { to, settled, released, asleep } = saved.foundOf(context)
  const later = (hostId: string, command: DeferredCommand['command']) =>
    carry.later(deps, tx, operation, hostId, command, operation.turn + 1)
  if (settled === 'deferred' || settled === undefined) await later(to!, 'move.settle')
  if (saved.isAsleepThere(operation)) {
    if (asleep === 'deferred') await later(to!, 'desktop.ensureAsleep')
    await correct(deps, tx, operation, asleep && asleep !== 'deferred' ? saved.stateOf(asleep) : 'hibernated')
  } else if (settled !== 'deferred') {
    await correct(deps, tx, operation, settled)
  }
  if (released !== 'done') await later(fromOf(context), 'move.release')
}

/** The host answers another state than the one that the desktop had: its guest has ended. */
async function correct(
  { hosts }: CarryContext,
  tx: Db,
  { desktopId, id: operationId }: SettleContext['operation'],
  state: DesktopState | undefined,
): Promise<void> {
  const row = await lockAny(tx, desktopId)
  if (!row || !state || state === row.state || !sourcesOf('correction', state).includes(row.state)) return
  await settle(tx, desktopId, state, { by: 'correction', operationId })
  if (row.currentGenerationId)
    await endGeneration(tx, row.currentGenerationId, state === 'stopped' ? 'found stopped' : state)
  await hosts.releaseMemory(tx, desktopId)
}

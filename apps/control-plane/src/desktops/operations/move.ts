// Move: place, begin, send, arrive, decide, settle, release. The desktop's state and generation stay. Wherever it fails, the
// desktop is whole on exactly one host, and the database says on which.
import type { DesktopState, MoveKind } from '@dormouse/contract'
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
import { endGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { sourcesOf } from '../states.ts'
import { lockAny } from '../store.ts'
import * as carry from './carry.ts'
import { type CarryContext, carried } from './carry.ts'
import { inputOf } from './input.ts'

/** The position of the step `decide`. */
const decideAt = 4

const target = z.object({ to: z.string().nullable() })

const fromOf = (context: { operation: Position }): string => inputOf(context).hostId!

/** Where it sleeps it needs no processor and no memory on the new host. */
function destinationOf({ operation }: Pick<StepContext, 'operation'>): carry.Destination {
  const { from: state, spec } = inputOf({ operation })
  const kind: MoveKind = state === 'awake' ? 'live' : 'cold'
  const needs = kind === 'live' ? spec : { vcpus: 0, memoryMiB: 0 }
  const { to } = target.parse(operation.input)
  const { vcpus, memoryMiB } = needs
  return { from: fromOf({ operation }), to, kind, vcpus, memoryMiB, mayRelay: true }
}

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
    phase: 'moving',
    run: (context) => carry.begin(deps, context, fromOf(context)),
    undo: (context) => carry.keep(deps, context, fromOf(context)),
    deferred: { kept: 'deferred' },
  }),
  step({
    name: 'send',
    phase: 'moving',
    run: (context) => carry.send(deps, context, fromOf(context)),
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
    phase: 'moving',
    run: (context) => carry.settle(deps, context),
    noUndo: 'it follows the decision, and is deferred where it fails',
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
  lock: (tx, { desktopId }) => lockAny(tx, desktopId),
  succeeded: (tx, context) => settleMoved(deps, tx, context),

  resultOf({ operation, findings }) {
    const { generation, generationId } = operation
    const { to, settled, released } = carried.parse(findings)
    const state = settled === 'deferred' || settled === undefined ? inputOf({ operation }).from : settled
    const cleanup = released === 'done' ? 'done' : 'deferred'
    return { desktop_state: state, generation, generation_id: generationId, host_id: to ?? null, cleanup }
  },

  async failed(tx, context) {
    const { operation, findings } = context
    if (await carry.isDecided(tx, operation.desktopId, findings)) {
      await settleMoved(deps, tx, context)
      return 'it has moved all the same'
    }
    const { to, kept, abandoned } = carried.parse(findings)
    await deps.hosts.dropArrival(tx, operation.desktopId)
    if (to && abandoned === 'deferred') await carry.later(deps, tx, operation, to, 'move.abandon', operation.turn)
    if (kept === 'deferred') await carry.later(deps, tx, operation, fromOf(context), 'move.keep', operation.turn)
    else await correct(deps, tx, operation, kept)
    return 'it stays as it was'
  },
})

/** What could not follow the decision yet is deferred. A guest that ended on the way is stopped. */
async function settleMoved(deps: CarryContext, tx: Db, { operation, findings }: SettleContext): Promise<void> {
  const { to, settled, released } = carried.parse(findings)
  const decidedTurn = operation.turn + 1
  if (settled === 'deferred' || settled === undefined)
    await carry.later(deps, tx, operation, to!, 'move.settle', decidedTurn)
  else await correct(deps, tx, operation, settled)
  if (released !== 'done') await carry.later(deps, tx, operation, fromOf({ operation }), 'move.release', decidedTurn)
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
  if (row.currentGenerationId) await endGeneration(tx, row.currentGenerationId, 'found stopped')
  await hosts.releaseMemory(tx, desktopId)
}

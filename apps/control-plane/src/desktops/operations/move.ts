// Move: place, begin, send, arrive, decide, settle, release. The desktop's state and generation stay. Wherever it fails, the
// desktop is whole on exactly one host, and the database has which one.
import type { DesktopState, OperationPhase, OperationResult } from '@dormouse/contract'
import type { Db } from '../../db/pool.ts'
import { type OperationDefinition, requireFound, type Step } from '../../operations/definition.ts'
import type { DeferredCommand } from '../deferred.ts'
import { endGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { sourcesOf } from '../states.ts'
import { lockAny } from '../store.ts'
import type { CarryContext, MovePosition, MoveRow } from './carry.ts'
import * as carry from './carry.ts'
import * as saved from './move-hibernated.ts'
import { type MoveFindings, type MoveInput, moveFindings, moveInput } from './stored.ts'

/** The position of the step `decide`. */
const decideAt = 4

/** If it sleeps there, it needs no processor and no memory on the new host. */
function mannerOf({ input, findings }: MovePosition): carry.Manner {
  const isAwake = input.from === 'awake'
  const { vcpus, memoryMiB, diskGiB } = input.wakesAs ?? input.spec
  const size = isAwake || input.forWake !== undefined ? { vcpus, memoryMiB } : { vcpus: 0, memoryMiB: 0 }
  const hibernates = saved.hibernates({ input, findings })
  return { kind: isAwake && !hibernates ? 'live' : 'cold', hibernates, diskGiB, ...size }
}

const phase = (operation: MovePosition): OperationPhase => (saved.isToBeSaved(operation) ? 'saving' : 'moving')

const stepsOf = (deps: CarryContext): Step<MoveInput, MoveFindings>[] => [
  {
    name: 'place',
    phase: () => 'placing',
    advances: true,
    run: (context) => carry.placeAway(deps, context, mannerOf(context.operation)),
    noUndo: 'the reservation on the new host is dropped when the operation settles',
  },
  {
    name: 'begin',
    phase,
    run: (context) => saved.begin(deps, context),
    undo: (context) => saved.keep(deps, context),
    deferred: { kept: 'deferred' },
  },
  {
    name: 'send',
    phase,
    run: (context) => saved.send(deps, context),
    undo: (context) => carry.abandon(deps, context),
    deferred: { abandoned: 'deferred' },
  },
  {
    name: 'arrive',
    phase: () => 'moving',
    run: (context) => carry.arrive(deps, context),
    noUndo: 'the undo of send removes what has arrived',
  },
  {
    name: 'decide',
    phase: () => 'moving',
    advances: true,
    run: (context) => carry.decide(deps, context),
    noUndo: 'a decision is final: the undos before it do nothing once it is stored',
  },
  {
    name: 'settle',
    phase: (operation) => (saved.hibernates(operation) ? 'starting' : 'moving'),
    run: (context) => saved.settle(deps, context),
    undo: (context) => saved.sleepThere(deps, context),
    deferred: { asleep: 'deferred' },
  },
  {
    name: 'release',
    phase: () => 'moving',
    run: (context) => carry.release(deps, context),
    noUndo: 'it follows the decision, and is deferred where it fails',
  },
]

export const move = (deps: CarryContext): OperationDefinition<MoveInput, MoveFindings> => ({
  kind: 'move',
  input: moveInput,
  findings: moveFindings,
  // The old host does most of the work, and reports its progress. The desktop must not wait for a slot while it is paused.
  hostOf: ({ input }) => input.hostId,
  helperOf: ({ findings }) => findings.to ?? findings.fetchesOn,
  steps: stepsOf(deps),
  precedes: () => true,
  givesWay: ({ step }) => step < decideAt,
  begunFor: ({ input }) => input.forWake,
  vanishes: carry.isFutile,
  lock: (tx, { desktopId }) => lockAny(tx, desktopId),
  succeeded: (tx, { operation }) => settleMoved(deps, tx, operation),

  resultOf(operation) {
    const { generation, generationId, input } = operation
    const { to, settled, released } = operation.findings
    const state = settled === 'deferred' || settled === undefined ? input.from : settled
    const cleanup = released === 'done' ? 'done' : 'deferred'
    const result = {
      desktop_state: state,
      generation,
      generation_id: generationId,
      host_id: to ?? null,
      cleanup,
    } as const
    return { ...result, moved: howOf(operation) }
  },

  afterwards: (context) => saved.tidy(deps, context),

  async failed(tx, { operation }) {
    const { findings, input, turn } = operation
    if (await carry.isDecided(tx, operation)) {
      await settleMoved(deps, tx, operation)
      const { settled, asleep } = findings
      return asleep && settled !== 'awake' ? 'it has moved all the same, and is asleep' : 'it has moved all the same'
    }
    const { to, kept, abandoned, asleep } = findings
    const later = (hostId: string, command: DeferredCommand['command']) =>
      carry.later(deps, tx, operation, hostId, command, turn)
    await deps.hosts.dropArrival(tx, operation.desktopId)
    if (to && abandoned === 'deferred') await later(to, 'move.abandon')
    if (asleep === 'deferred') await later(input.hostId, 'desktop.ensureAsleep')
    if (kept === 'deferred') await later(input.hostId, 'move.keep')
    else await correct(deps, tx, operation, kept)
    return asleep ? 'it was hibernated for the move and could not be woken; its disk is kept' : 'it stays as it was'
  },
})

const howOf = (operation: MovePosition): OperationResult['moved'] => {
  if (operation.input.from !== 'awake') return 'asleep'
  return saved.hibernates(operation) ? 'hibernated' : 'live'
}

/** Steps after the decision that could not be done yet are deferred. A guest that ended meanwhile is stopped. */
async function settleMoved(deps: CarryContext, tx: Db, operation: MoveRow): Promise<void> {
  const { settled, released, asleep } = operation.findings
  const { to } = requireFound(operation, 'to')
  const later = (hostId: string, command: DeferredCommand['command']) =>
    carry.later(deps, tx, operation, hostId, command, operation.turn + 1)
  if (settled === 'deferred' || settled === undefined) await later(to, 'move.settle')
  if (saved.isAsleepThere(operation)) {
    if (asleep === 'deferred') await later(to, 'desktop.ensureAsleep')
    await correct(deps, tx, operation, asleep && asleep !== 'deferred' ? saved.stateOf(asleep) : 'hibernated')
  } else if (settled !== 'deferred') {
    await correct(deps, tx, operation, settled)
  }
  if (released !== 'done') await later(operation.input.hostId, 'move.release')
}

/** The host reports another state than the desktop had: its guest has ended. */
async function correct(
  { hosts }: CarryContext,
  tx: Db,
  { desktopId, id: operationId }: MoveRow,
  state: DesktopState | undefined,
): Promise<void> {
  const row = await lockAny(tx, desktopId)
  if (!row || !state || state === row.state || !sourcesOf('correction', state).includes(row.state)) return
  await settle(tx, desktopId, state, { by: 'correction', operationId })
  if (row.currentGenerationId)
    await endGeneration(tx, row.currentGenerationId, state === 'stopped' ? 'found stopped' : state)
  await hosts.releaseMemory(tx, desktopId)
}

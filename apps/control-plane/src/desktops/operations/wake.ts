// Wake: place, disk, run. Wherever it fails, it holds no memory of a host, and the saved work is still there.
import {
  type CommandResult,
  type DesktopState,
  Refusal,
  type ResumedFrom,
  refuse,
  type WakeSource,
} from '@dormouse/contract'
import type { Links } from '../../agents/links.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import {
  type Failure,
  type Findings,
  type OperationDefinition,
  type StepContext,
  step,
} from '../../operations/definition.ts'
import { lockLive } from '../../operations/store.ts'
import { defer } from '../deferred.ts'
import * as store from '../store.ts'
import { asking, fenceOf, type Input, inputOf } from './input.ts'

const tidyMs = 30_000

export interface WakeContext {
  leadership: Leadership
  hosts: Hosts
  links: Links
}

/** What the host says after an undo, or that it is still to come. */
export type Asleep = CommandResult<'desktop.ensureAsleep'> | 'deferred'

interface Found extends Findings {
  hostId?: string
  resumedFrom?: ResumedFrom
  ready?: boolean | undefined
  asleep?: Asleep
}

const putOff: Found = { asleep: 'deferred' }

/** What a wake may start from, by where it came from. A saved memory is given up only when the caller says so. */
function sourceOf({ from, discardMemory }: Input): WakeSource {
  const disk = from === 'created' ? 'make' : 'require'
  if (discardMemory) return { memory: 'discard', disk }
  return { memory: from === 'hibernated' ? 'require' : 'allow', disk }
}

const hostOf = ({ findings }: Pick<StepContext, 'findings'>): string =>
  (findings as Found).hostId ?? refuse('no_host', 'The desktop has no host.')

export function wake({ leadership, hosts, links }: WakeContext): OperationDefinition {
  async function sleepAgain(context: StepContext): Promise<Found> {
    if ((context.findings as Found).asleep) return {}
    try {
      return {
        asleep: await links.command(
          hostOf(context),
          'desktop.ensureAsleep',
          { fence: fenceOf(context) },
          asking(context),
        ),
      }
    } catch (error) {
      if (cannotBeDoneNow(error)) return { ...putOff, why: (error as Error).message }
      throw error
    }
  }

  return {
    kind: 'wake',
    steps: [
      step({
        name: 'place',
        run: ({ operation }) => {
          const { hostId: boundTo, spec } = inputOf({ operation })
          const { desktopId } = operation
          return leadership.transaction(async (tx) => {
            await store.lockAny(tx, desktopId)
            // A destroy may have settled this operation while it waited here: it then holds nothing any more.
            if (!(await lockLive(tx, operation.id))) refuse('superseded', 'Superseded by a later request.')
            const hostId = await hosts.place(tx, boundTo, { desktopId, ...spec, image: spec.imageVersion })
            await store.bind(tx, desktopId, hostId)
            return { hostId }
          })
        },
        noUndo: 'what the desktop holds of a host is written down with its state, when the operation settles',
      }),
      step({
        name: 'disk',
        run: async (context) => {
          const { from, spec } = inputOf(context)
          if (from !== 'created') return undefined
          const wish = { fence: fenceOf(context), spec, disk: 'make' as const }
          await links.command(hostOf(context), 'desktop.ensureDisk', wish, asking(context))
          return undefined
        },
        /** A disk holds its owner’s work, only destroy removes one: this only learns what is there. */
        undo: (context) => sleepAgain(context),
        putOff,
      }),
      step({
        name: 'run',
        run: async (context) => {
          const input = inputOf(context)
          const { resumedFrom, ready } = await links.command(
            hostOf(context),
            'desktop.ensureAwake',
            { fence: fenceOf(context), spec: input.spec, source: sourceOf(input) },
            asking(context),
          )
          return { resumedFrom: input.from === 'created' && resumedFrom === 'disk' ? 'image' : resumedFrom, ready }
        },
        /** Back asleep: the unspent memory is kept, a guest that has run is saved anew. Out of reach: when it is back. */
        undo: (context) => sleepAgain(context),
        putOff,
      }),
    ],

    lock: (tx, { desktopId }) => store.lockAny(tx, desktopId),

    async succeeded(tx, { operation, findings }) {
      const { desktopId, generation, generationId } = operation
      const { hostId, resumedFrom, ready } = findings as Required<Pick<Found, 'hostId' | 'resumedFrom'>> & Found
      await store.settle(tx, desktopId, 'awake', { operationId: operation.id, hostId })
      await store.startGeneration(tx, generationId!, hostId)
      return {
        desktop_state: 'awake',
        generation,
        generation_id: generationId,
        host_id: hostId,
        resumed_from: resumedFrom,
        ready,
      }
    },

    /** The spent image may go; where this is lost, the next inventory does it. */
    async afterwards({ operation, findings, epoch }) {
      const { hostId, resumedFrom } = findings as Found
      if (resumedFrom !== 'memory' && !inputOf({ operation }).discardMemory) return
      await links.command(
        hostId!,
        'desktop.tidy',
        { fence: fenceOf({ operation, epoch, remainingMs: tidyMs }) },
        { timeoutMs: tidyMs },
      )
    },

    async failed(tx, { operation, findings }, failure) {
      const { desktopId, generation, generationId, turn, id } = operation
      const { hostId, asleep } = findings as Found
      const input = inputOf({ operation })
      await store.settle(tx, desktopId, stateAfterFailure(input, asleep), { operationId: id })
      await store.endGeneration(tx, generationId!, 'wake failed')
      if (asleep === 'deferred') {
        await defer(tx, {
          desktopId,
          hostId: hostId!,
          command: 'desktop.ensureAsleep',
          generation,
          turn,
          operationId: id,
        })
      }
      // A desktop that left nothing on the host is bound to none: the next wake may choose another.
      const leftNothing = input.hostId === null && (!asleep || (asleep !== 'deferred' && asleep.state === 'absent'))
      if (leftNothing) await store.bind(tx, desktopId, null)
      await (leftNothing ? hosts.releaseAll : hosts.releaseMemory)(tx, desktopId)
      return lostBy(input, asleep, failure)
    },
  }
}

/** An undo is put off at once where the host is away, and where it has obeyed a later turn. */
const cannotBeDoneNow = (error: unknown): boolean =>
  error instanceof Refusal && ['host_unreachable', 'stale_turn', 'superseded'].includes(error.code)

/**
 * What is true after a wake that failed. A memory that was kept is kept in the state, too: nothing is downgraded in
 * silence. A saved memory that the host no longer has is gone where the caller gave it up; elsewhere it may be put back.
 */
export function stateAfterFailure(
  { from, discardMemory }: Pick<Input, 'from' | 'discardMemory'>,
  asleep: Asleep | undefined,
): DesktopState {
  if (asleep === undefined || asleep === 'deferred') return from
  if (asleep.memoryLost) return 'stopped'
  if (asleep.state === 'hibernated') return 'hibernated'
  if (from === 'hibernated' && discardMemory) return 'stopped'
  return from === 'created' && asleep.state === 'stopped' ? 'stopped' : from
}

/** Whether the failed wake has cost anything, in half a sentence; undefined where what failed says it. */
function lostBy({ from, discardMemory }: Input, asleep: Asleep | undefined, failure: Failure): string | undefined {
  if (asleep === undefined) return 'nothing was lost'
  if (asleep === 'deferred') return 'its host takes the rest back when it can'
  if (asleep.memoryLost)
    return failure.code === 'memory_lost'
      ? 'its disk is kept'
      : 'the guest had run by then and could not be saved anew: its memory is lost, its disk is kept'
  if (asleep.state === 'hibernated') return 'its saved memory and its disk are kept'
  if (from === 'hibernated' && discardMemory) return 'the saved memory was given up as asked, its disk is kept'
  if (asleep.state === 'stopped') return 'its disk is kept'
  return from === 'created' ? 'nothing was lost' : undefined
}

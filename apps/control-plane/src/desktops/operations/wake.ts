// Wake: place, disk, run. Wherever it fails, it holds no memory on a host, and the saved work is kept. If the desktop's host is
// cordoned or full, a move to another one goes first.

import {
  imageFolderName,
  type OperationPhase,
  Refusal,
  refuse,
  resumedFrom,
  type WakeSource,
  wakePath,
} from '@dormouse/contract'
import { together } from '@dormouse/process'
import { z } from 'zod'
import type { Links } from '../../agents/links.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Images } from '../../images/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import {
  type Opening,
  type OperationDefinition,
  type Position,
  type SettleContext,
  type StepContext,
  step,
} from '../../operations/definition.ts'
import type { Failure } from '../../operations/failures.ts'
import type { NewOperation } from '../../operations/store.ts'
import { defer } from '../deferred.ts'
import { endGeneration, startGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { bind, lockAny, unbind } from '../store.ts'
import { afterMove } from './after-move.ts'
import { onSomeHost, wasElsewhere } from './another-host.ts'
import { asleepResult, leftNothing, lossOf, stateAfterFailure } from './failed-wake.ts'
import { diskRequest, imageOf } from './image-of-wake.ts'
import { cannotBeDoneNow, commandOptions, fenceOf, type Input, inputOf } from './input.ts'
import { moveFirst } from './wake-elsewhere.ts'

const tidyMs = 30_000

export interface WakeContext {
  leadership: Leadership
  hosts: Hosts
  images: Images
  links: Links
}

const findings = z.object({
  hostId: z.string().optional(),
  resumedFrom: resumedFrom.optional(),
  /** Absent if the host cannot tell. */
  ready: z.boolean().optional(),
  path: wakePath.optional(),
  asleep: asleepResult.optional(),
})
type Findings = z.infer<typeof findings>

const deferred: Findings = { asleep: 'deferred' }

/** What the wake may start from, by the desktop's state. Saved memory is discarded only if the caller says so. */
function sourceOf({ from, discardMemory }: Input): WakeSource {
  const disk = from === 'created' ? 'make' : 'require'
  if (discardMemory) return { memory: 'discard', disk }
  return { memory: from === 'hibernated' ? 'require' : 'allow', disk }
}

const hostOf = (context: Pick<StepContext, 'findings'>): string =>
  findings.parse(context.findings).hostId ?? refuse('no_host', 'the desktop has no host')

/**
 * What sleeps on a cordoned host wakes elsewhere if it can do so soon, otherwise in place. What sleeps on a full one can only
 * move, perhaps through a relay.
 */
function placing(deps: WakeContext) {
  const { leadership, hosts, images } = deps
  const placeHere = async ({ operation, advance }: StepContext) => {
    const { hostId: boundTo } = inputOf({ operation })
    const { desktopId } = operation
    const image = await imageOf(images, { operation })
    const request = { ...placementOf(operation), registered: image }
    return hosts.place(boundTo, request, (host) =>
      leadership.transaction(async (tx) => {
        const found = { hostId: host.id, ...(image && { image }) }
        await together([lockAny(tx, desktopId), host.confirm(tx)])
        const madeFrom = image ? imageFolderName(image) : null
        const bound = boundTo === null ? bind(tx, desktopId, { hostId: host.id, madeFrom }) : Promise.resolve()
        // A destroy may have settled this operation while it waited for the lock. It then must reserve nothing.
        await together([host.reserve(tx), bound, advance(tx, found)])
        return found
      }),
    )
  }

  return async (context: StepContext) => {
    const { hostId, from, staysThere } = inputOf(context)
    const mayLeave = hostId !== null && from !== 'created' && !staysThere && (await hosts.knowsMoves(hostId))
    if (mayLeave && (await hosts.isCordoned(hostId))) return moveFirst(deps, context, { from: hostId, mayRelay: false })
    try {
      return await placeHere(context)
    } catch (error) {
      if (!mayLeave || !(error instanceof Refusal) || error.code !== 'no_room') throw error
      return moveFirst(deps, context, { from: hostId, mayRelay: true })
    }
  }
}

/** Unspent memory is kept; a guest that has run is saved again. On an unreachable host the undo is deferred. */
function sleepingAgain(deps: WakeContext) {
  return async (context: StepContext) => {
    if (findings.parse(context.findings).asleep) return {}
    try {
      const payload = { fence: fenceOf(context) }
      return {
        asleep: await deps.links.command(hostOf(context), 'desktop.ensureAsleep', payload, commandOptions(context)),
      }
    } catch (error) {
      if (cannotBeDoneNow(error)) return { ...deferred, why: (error as Error).message }
      throw error
    }
  }
}

export function wake(deps: WakeContext): OperationDefinition {
  const { hosts, links } = deps

  const place = placing(deps)

  const makeDisk = async (context: StepContext) => {
    if (hasDisk(context.operation)) return undefined
    await onSomeHost(deps, context, (now) => {
      const payload = { fence: fenceOf(now), ...diskRequest(now), disk: 'make' as const }
      return links.command(hostOf(now), 'desktop.ensureDisk', payload, commandOptions(now))
    })
    return undefined
  }

  const run = async (context: StepContext): Promise<Findings> => {
    const input = inputOf(context)
    const woken = await onSomeHost(deps, context, (now) => {
      const hostId = hostOf(now)
      const payload = { fence: fenceOf(now), ...diskRequest(now), source: sourceOf(input) }
      const ask = () => links.command(hostId, 'desktop.ensureAwake', payload, commandOptions(now))
      return afterMove(deps, now, hostId, ask)
    })
    hosts.wakeSucceeded(hostOf(context))
    const isFirst = input.from === 'created' && woken.resumedFrom === 'disk'
    const { ready, path } = woken
    return { resumedFrom: isFirst ? 'image' : woken.resumedFrom, ready, path }
  }

  const sleepAgain = sleepingAgain(deps)

  return {
    kind: 'wake',
    steps: [
      step({
        name: 'place',
        phase: 'placing',
        advances: true,
        run: place,
        noUndo: 'the reservation is written together with the state when the operation settles',
      }),
      // The undo never removes the disk, which may hold its owner’s work. It only finds out what is there.
      step({
        name: 'disk',
        phase: (operation) => elsewhereOr(operation, 'making_disk'),
        idle: hasDisk,
        run: makeDisk,
        undo: sleepAgain,
        deferred,
      }),
      step({ name: 'run', phase: (operation) => elsewhereOr(operation, 'starting'), run, undo: sleepAgain, deferred }),
    ],
    hostOf: (operation) => findings.parse(operation.findings).hostId ?? inputOf({ operation }).hostId,
    opens: (operation) => placeBound(hosts, operation),
    lock: (tx, { desktopId }) => lockAny(tx, desktopId),
    succeeded: (tx, context) => settleAwake(tx, context, false),
    succeededAtOnce: (tx, context) => settleAwake(tx, context, true),
    resultOf,
    afterwards: (context) => tidy(links, context),
    failed: (tx, context, failure) => settleFailed(deps, tx, context, failure),
  }
}

const elsewhereOr = (operation: Position, phase: OperationPhase): OperationPhase =>
  wasElsewhere(operation) ? 'trying_another_host' : phase

const hasDisk = (operation: Position) => inputOf({ operation }).from !== 'created'

/** Where the disk is, a wake needs no choice of host. */
function placeBound(hosts: Hosts, operation: NewOperation): Opening | undefined {
  const { hostId, from } = inputOf({ operation })
  if (hostId === null || from === 'created' || !hosts.takesCommands(hostId)) return undefined
  return { found: { hostId }, write: (tx) => hosts.reserveAtOnce(tx, hostId, placementOf(operation)) }
}

function placementOf(operation: Pick<NewOperation, 'desktopId' | 'input'>) {
  const { spec, onHost: only } = inputOf({ operation })
  return { desktopId: operation.desktopId, ...spec, image: spec.imageVersion, only }
}

async function settleAwake(tx: Db, { operation, findings: stored }: SettleContext, atOnce: boolean): Promise<void> {
  const { desktopId, generationId, id: operationId } = operation
  const { hostId } = wokenOn(stored)
  const settled = settle(tx, desktopId, 'awake', { by: 'wake', operationId, hostId, atOnce })
  await together([settled, startGeneration(tx, generationId!, hostId)])
}

const wokenOn = (stored: SettleContext['findings']) =>
  findings.required({ resumedFrom: true, hostId: true }).parse(stored)

function resultOf({ operation, findings: stored }: SettleContext) {
  const { generation, generationId } = operation
  const { hostId, resumedFrom, ready, path } = wokenOn(stored)
  return {
    desktop_state: 'awake',
    generation,
    generation_id: generationId,
    host_id: hostId,
    resumed_from: resumedFrom,
    ready,
    path,
  }
}

/** Lets the host remove the spent memory image. If this command is lost, the next inventory removes it. */
async function tidy(links: Links, { operation, findings: stored, epoch }: SettleContext): Promise<void> {
  const { resumedFrom, hostId } = wokenOn(stored)
  if (resumedFrom !== 'memory' && !inputOf({ operation }).discardMemory) return
  const fence = fenceOf({ operation, epoch, remainingMs: tidyMs })
  await links.command(hostId, 'desktop.tidy', { fence }, { timeoutMs: tidyMs })
}

async function settleFailed(
  { hosts }: WakeContext,
  tx: Db,
  { operation, findings: stored }: SettleContext,
  failure: Failure,
): Promise<string | undefined> {
  const { desktopId, generation, generationId, turn, id: operationId } = operation
  const { asleep, hostId } = findings.parse(stored)
  const input = inputOf({ operation })
  await settle(tx, desktopId, stateAfterFailure(input, asleep), { by: 'wake', operationId })
  await endGeneration(tx, generationId!, 'wake failed')
  if (asleep === 'deferred') {
    const undo = { desktopId, hostId: hostId!, command: 'desktop.ensureAsleep', generation, turn, operationId } as const
    await defer(tx, undo)
  }
  if (leftNothing(input, asleep)) {
    await unbind(tx, desktopId)
    await hosts.releaseAll(tx, desktopId)
  } else {
    await hosts.releaseMemory(tx, desktopId)
  }
  return lossOf(input, asleep, failure)
}

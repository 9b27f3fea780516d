// Wake: place, disk, run. If it fails at any step, it holds no memory on a host, and the saved work is kept. If the desktop's
// host is cordoned or full, a move to another one goes first.

import {
  imageFolderName,
  type OperationPhase,
  Refusal,
  refuse,
  type Shares,
  type Tier,
  type WakeSource,
} from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Links } from '../../agents/links.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Images } from '../../images/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import {
  type Opening,
  type OperationDefinition,
  type Position,
  requireFound,
  type SettleContext,
  type StepContext,
} from '../../operations/definition.ts'
import type { Failure } from '../../operations/failures.ts'
import type { NewOperation, OperationRow } from '../../operations/store.ts'
import { defer } from '../deferred.ts'
import { endGeneration, startGeneration } from '../generations.ts'
import { settle } from '../state-changes.ts'
import { bind, lockAny, unbind } from '../store.ts'
import { afterMove } from './after-move.ts'
import { onSomeHost, wasElsewhere } from './another-host.ts'
import { leftNothing, lossOf, stateAfterFailure } from './failed-wake.ts'
import { cannotBeDoneNow, commandOptions, fenceOf } from './fence.ts'
import { diskRequest, imageOf } from './image-of-wake.ts'
import { type WakeFindings, type WakeInput, wakeFindings, wakeInput } from './stored.ts'
import { moveFirst } from './wake-elsewhere.ts'
import { bootRequest, growsDisk, keepSize, placementOf, shownSizes, takeFound } from './wake-size.ts'

const tidyMs = 30_000

export interface WakeContext {
  leadership: Leadership
  hosts: Hosts
  images: Images
  links: Links
  shares: Record<Tier, Shares>
}

type Wake = StepContext<WakeInput, WakeFindings>
type WakePosition = Position<WakeInput, WakeFindings>
type WakeSettlement = SettleContext<WakeInput, WakeFindings>

const deferred: WakeFindings = { asleep: 'deferred' }

/** What the wake starts from, by the desktop's state. Saved memory is discarded only if the caller requests that. */
function sourceOf({ from, discardMemory }: WakeInput): WakeSource {
  const disk = from === 'created' ? 'make' : 'require'
  if (discardMemory) return { memory: 'discard', disk }
  return { memory: from === 'hibernated' ? 'require' : 'allow', disk }
}

const hostOf = ({ operation }: Wake): string =>
  operation.findings.hostId ?? refuse('no_host', 'the desktop has no host')

/**
 * A desktop on a cordoned host wakes on another one if that is possible soon, otherwise in place. On a full host it can only
 * move, perhaps through a relay.
 */
function placing(deps: WakeContext) {
  const { leadership, hosts, images } = deps
  const placeHere = async ({ operation, advance }: Wake) => {
    const { desktopId, input } = operation
    const { hostId: boundTo } = input
    const image = await imageOf(images, input)
    const request = { ...placementOf(operation), registered: image }
    return hosts.place(boundTo, request, (host) =>
      leadership.transaction(async (tx) => {
        const found = { hostId: host.id, ...(image && { image }) }
        await together([lockAny(tx, desktopId), host.confirm(tx)])
        const madeFrom = image ? imageFolderName(image) : null
        const bound = boundTo === null ? bind(tx, desktopId, { hostId: host.id, madeFrom }) : Promise.resolve()
        // A destroy may have settled this operation while it waited for the lock. It must reserve nothing then.
        await together([host.reserve(tx), bound, advance(tx, found)])
        return found
      }),
    )
  }

  return async (context: Wake) => {
    const { hostId, from, staysThere } = context.operation.input
    const mayLeave = hostId !== null && from !== 'created' && !staysThere
    if (mayLeave && (await hosts.isCordoned(hostId))) return moveFirst(deps, context, { from: hostId, mayRelay: false })
    try {
      return await placeHere(context)
    } catch (error) {
      if (!mayLeave || !(error instanceof Refusal) || error.code !== 'no_room') throw error
      return moveFirst(deps, context, { from: hostId, mayRelay: true })
    }
  }
}

/** Keeps unspent memory; saves a guest that has run again. On an unreachable host the undo is deferred. */
function sleepingAgain(deps: WakeContext) {
  return async (context: Wake) => {
    if (context.operation.findings.asleep) return {}
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

export function wake(deps: WakeContext): OperationDefinition<WakeInput, WakeFindings> {
  const { hosts, links } = deps

  const place = placing(deps)

  const makeDisk = async (context: Wake) => {
    if (hasDisk(context.operation)) return undefined
    await onSomeHost(deps, context, (now) => {
      const payload = { fence: fenceOf(now), ...diskRequest(now.operation), disk: 'make' as const }
      return links.command(hostOf(now), 'desktop.ensureDisk', payload, commandOptions(now))
    })
    return undefined
  }

  const run = async (context: Wake): Promise<WakeFindings> => {
    const { input } = context.operation
    const woken = await onSomeHost(deps, context, (now) => {
      const hostId = hostOf(now)
      const payload = { fence: fenceOf(now), ...bootRequest(deps.shares, now.operation), source: sourceOf(input) }
      const ask = () => links.command(hostId, 'desktop.ensureAwake', payload, commandOptions(now))
      return afterMove(deps, now, hostId, ask)
    })
    hosts.wakeSucceeded(hostOf(context))
    const isFirst = input.from === 'created' && woken.resumedFrom === 'disk'
    const { ready, path, size } = woken
    return { resumedFrom: isFirst ? 'image' : woken.resumedFrom, ready, path, size }
  }

  const sleepAgain = sleepingAgain(deps)

  return {
    kind: 'wake',
    input: wakeInput,
    findings: wakeFindings,
    steps: [
      {
        name: 'place',
        phase: () => 'placing',
        advances: true,
        run: place,
        noUndo: 'the reservation is written together with the state when the operation settles',
      },
      // The undo never removes the disk, which may hold its owner’s work. It only finds out what exists.
      {
        name: 'disk',
        phase: (operation) => elsewhereOr(operation, 'making_disk'),
        idle: hasDisk,
        run: makeDisk,
        undo: sleepAgain,
        deferred,
      },
      { name: 'run', phase: (operation) => elsewhereOr(operation, 'starting'), run, undo: sleepAgain, deferred },
    ],
    hostOf: ({ input, findings }) => findings.hostId ?? input.hostId,
    opens: (operation) => placeBound(hosts, operation),
    lock: (tx, { desktopId }) => lockAny(tx, desktopId),
    succeeded: (tx, context) => settleAwake(hosts, tx, context, false),
    succeededAtOnce: (tx, context) => settleAwake(hosts, tx, context, true),
    resultOf,
    afterwards: (context) => tidy(links, context),
    failed: (tx, context, failure) => settleFailed(deps, tx, context, failure),
  }
}

const elsewhereOr = (operation: WakePosition, phase: OperationPhase): OperationPhase =>
  wasElsewhere(operation) ? 'trying_another_host' : phase

const hasDisk = ({ input }: Pick<WakePosition, 'input'>) => input.from !== 'created'

/** If the desktop has a disk, its host is known and no host has to be chosen. */
function placeBound(hosts: Hosts, operation: NewOperation<WakeInput>): Opening<WakeFindings> | undefined {
  const { hostId, from } = operation.input
  const isKnown = hostId !== null && from !== 'created' && !growsDisk(operation.input)
  if (!isKnown || !hosts.takesCommands(hostId)) return undefined
  return { found: { hostId }, write: (tx) => hosts.reserveAtOnce(tx, hostId, placementOf(operation)) }
}

async function settleAwake(hosts: Hosts, tx: Db, { operation }: WakeSettlement, atOnce: boolean): Promise<void> {
  const { desktopId, generationId, id: operationId } = operation
  const { hostId } = requireFound(operation, 'hostId')
  const sizing = takeFound(hosts, tx, operation)
  const settled = settle(tx, desktopId, 'awake', { by: 'wake', operationId, atOnce })
  await together([sizing, settled, startGeneration(tx, generationId!, hostId)])
}

function resultOf(operation: OperationRow<WakeInput, WakeFindings>) {
  const { generation, generationId } = operation
  const { ready, path } = operation.findings
  const { hostId, resumedFrom } = requireFound(operation, 'hostId', 'resumedFrom')
  return {
    desktop_state: 'awake' as const,
    generation,
    generation_id: generationId,
    host_id: hostId,
    resumed_from: resumedFrom,
    ready,
    path,
    ...shownSizes(operation),
  }
}

/** Lets the host remove the spent memory image. If this command is lost, the next inventory removes it. */
async function tidy(links: Links, { operation, epoch }: WakeSettlement): Promise<void> {
  const { resumedFrom, hostId } = requireFound(operation, 'hostId', 'resumedFrom')
  if (resumedFrom !== 'memory' && !operation.input.discardMemory) return
  const fence = fenceOf({ operation, epoch, remainingMs: tidyMs })
  await links.command(hostId, 'desktop.tidy', { fence }, { timeoutMs: tidyMs })
}

async function settleFailed(
  { hosts }: WakeContext,
  tx: Db,
  { operation }: WakeSettlement,
  failure: Failure,
): Promise<string | undefined> {
  const { desktopId, generation, generationId, turn, id: operationId, input } = operation
  const { asleep, hostId } = operation.findings
  const diskGiB = await keepSize(tx, operation)
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
    await hosts.releaseMemory(tx, desktopId, diskGiB)
  }
  return lossOf(input, asleep, failure)
}

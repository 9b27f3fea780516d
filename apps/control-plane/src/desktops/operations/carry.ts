// The steps of a move between two hosts, in the order of decision 51. A failure before the decision undoes them; after it, the
// move goes forward.
import { randomBytes } from 'node:crypto'
import {
  type CommandResult,
  type Fence,
  type ImageRef,
  isOvertaken,
  type MoveKind,
  type MoveTraits,
  Refusal,
  refusalWithCause,
  refuse,
  type Shares,
  type Tier,
} from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Links } from '../../agents/links.ts'
import type { Relays } from '../../agents/relays.ts'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Images } from '../../images/service.ts'
import type { Leadership } from '../../leadership/leadership.ts'
import { requireFound, type StepContext } from '../../operations/definition.ts'
import { hasFollower } from '../../operations/followers.ts'
import type { OperationRow } from '../../operations/store.ts'
import { type DeferredCommand, defer, hostsOf } from '../deferred.ts'
import { startGeneration } from '../generations.ts'
import { withShares } from '../shares.ts'
import { moveTo } from '../state-changes.ts'
import { lockAny } from '../store.ts'
import { endMove } from './after-move.ts'
import { cannotBeDoneNow, commandOptions, fenceOf } from './fence.ts'
import { type MoveFindings, type MoveInput, moveFindings, moveInput } from './stored.ts'

export interface CarryContext {
  leadership: Leadership
  hosts: Hosts
  images: Images
  links: Links
  relays: Relays
  shares: Record<Tier, Shares>
}

export type Move = StepContext<MoveInput, MoveFindings>
export type MovePosition = Pick<MoveRow, 'input' | 'findings'>
export type MoveRow = OperationRow<MoveInput, MoveFindings>

/** How it moves, and what it holds on the new host. */
export interface Manner {
  kind: MoveKind
  /** The desktop is awake, and is hibernated before its files are sent. */
  hibernates: boolean
  vcpus: number
  memoryMiB: number
  diskGiB: number
}

/** Whether a settled operation was a move for a wake that found no host. It did nothing, so it is not kept. */
export const wasFutile = ({ kind, input, findings }: OperationRow): boolean =>
  kind === 'move' && isFutile({ input: moveInput.parse(input), findings: moveFindings.parse(findings) })

export const isFutile = ({ input, findings }: MovePosition): boolean =>
  input.forWake !== undefined && findings.to === undefined

/** The findings of `placeAway`, for the steps after it. */
const placed = ({ operation }: Pick<Move, 'operation'>) => requireFound(operation, 'to', 'kind', 'imageDigest')

const checkMs = 30_000
/** The steps after the decision get at least this long, whatever is left of the deadline. */
const decidedMs = 30_000
/** With less time left than this, the command that resumes the desktop is deferred. */
const lastTryMs = 10_000
/** An interrupted copy continues from where it stopped. */
const copyTries = 3

/** Chooses a host that can take the desktop, reserves capacity there, and stores the next step. */
export async function placeAway(deps: CarryContext, context: Move, manner: Manner): Promise<MoveFindings> {
  const { links, hosts, images } = deps
  const { desktopId, id: operationId, input } = context.operation
  const { hostId: from, to, spec } = input
  const { kind, hibernates, vcpus, memoryMiB, diskGiB } = manner
  const traits = await links.command(from, 'move.traits', { desktopId }, commandOptions(context))
  if (traits.kind !== (hibernates ? 'live' : kind))
    throw refusalWithCause('hypervisor_failed', `on its host the desktop can only move ${traits.kind}`)
  if (hibernates) traits.memoryBytes = memoryMiB * 1024 * 1024
  const registered = await images.madeFrom(spec.imageVersion)
  const mayRelay = input.mayRelay && hosts.mayRelay
  const owing = await stillOwing(deps, context, to)
  const misfits = new Map<string, string>()
  for (;;) {
    const leaving = { operationId, not: [from, ...owing, ...misfits.keys()], mayRelay }
    const { imageVersion: image } = spec
    const request = { desktopId, vcpus, memoryMiB, diskGiB, image, registered, leaving }
    const found = await hosts
      .placeAway(to, request, async (host) => {
        const misfit = await misfitOf(deps, context, host.id, { traits, image: registered, mayRelay })
        if (misfit !== null) return void misfits.set(host.id, misfit)
        const found = { to: host.id, kind, imageDigest: traits.imageDigest }
        await deps.leadership.transaction(async (tx) => {
          await together([lockAny(tx, desktopId), host.confirm(tx)])
          await together([host.reserve(tx), context.advance(tx, found)])
        })
        return found
      })
      .catch((error: unknown) => {
        if (!(error instanceof Refusal) || misfits.size === 0) throw error
        throw refusalWithCause('no_host', `no other host can take the desktop: ${[...misfits.values()].join('; ')}`)
      })
    if (found) return found
  }
}

/**
 * The hosts that still have parts of the desktop and would therefore refuse it. First ends earlier moves on the hosts that may
 * be chosen.
 */
async function stillOwing(deps: CarryContext, context: Move, to: string | null): Promise<string[]> {
  const { desktopId } = context.operation
  const read = () => deps.leadership.transaction((tx) => hostsOf(tx, desktopId))
  const owing = await read()
  const able = owing.filter((hostId) => (to ?? hostId) === hostId && deps.hosts.takesCommands(hostId))
  const remainingMs = Math.min(context.remainingMs, checkMs)
  for (const hostId of able)
    await endMove(deps, { ...context, remainingMs }, hostId).catch((error: unknown) => {
      if (!(error instanceof Refusal) || isOvertaken(error, 'leader')) throw error
    })
  return able.length === 0 ? owing : read()
}

/** Why the host cannot take the desktop; null if it can. If it lacks the image, it fetches it first. */
async function misfitOf(
  deps: CarryContext,
  context: Move,
  hostId: string,
  desktop: { traits: MoveTraits; image: ImageRef | undefined; mayRelay: boolean },
): Promise<string | null> {
  const payload = { spec: context.operation.input.spec, ...desktop }
  const { misfit, fetches } = await deps.links
    .command(hostId, 'move.check', payload, { signal: context.signal, timeoutMs: checkMs })
    .catch((error: unknown) => misfitFrom(error, ['host_unreachable']))
  if (misfit !== null) return misfit
  return fetches && desktop.image ? fetchImage(deps, context, hostId, desktop.image) : null
}

/** Why the host cannot fetch the image. It may take minutes: the host's reports extend the operation's deadline. */
async function fetchImage(
  { links }: CarryContext,
  context: Move,
  hostId: string,
  image: ImageRef,
): Promise<string | null> {
  const { desktopId, id: operationId, findings } = context.operation
  findings.fetchesOn = hostId
  const fetched = links.command(hostId, 'image.ensure', { image, desktopId, operationId }, commandOptions(context))
  const { misfit } = await fetched.then(
    () => ({ misfit: null }),
    (error: unknown) => misfitFrom(error, ['image_not_fetched', 'host_disk_full']),
  )
  return misfit
}

function misfitFrom(error: unknown, codes: readonly string[]): CommandResult<'move.check'> {
  if (error instanceof Refusal && codes.includes(error.code)) return { misfit: error.extra.cause ?? error.detail }
  throw error
}

/** Makes the old host hold the desktop for the move. The guest is not affected. */
export async function begin(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const { links } = deps
  const { kind } = placed(context)
  const from = context.operation.input.hostId
  const payload = { fence: fenceOf(context), kind }
  // Once this move has begun, the host would refuse the commands of an earlier one.
  await endMove(deps, context, from)
  return { begun: (await links.command(from, 'move.begin', payload, commandOptions(context))).handoff }
}

/**
 * Lets the new host listen and the old one send everything, through this replica if the hosts cannot reach each other. Each
 * attempt has its own key.
 */
export async function send(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const { kind } = placed(context)
  let sendOnce = sendDirectly
  for (let tries = 1; ; ) {
    try {
      return await sendOnce(deps, context)
    } catch (error) {
      if (!(error instanceof Refusal) || context.signal.aborted) throw error
      if (error.code === 'move_unreachable' && sendOnce === sendDirectly && deps.hosts.mayRelay) {
        sendOnce = sendRelayed
      } else if (kind !== 'cold' || error.code !== 'hypervisor_failed' || tries++ >= copyTries) throw error
    }
  }
}

async function sendDirectly(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const { links } = deps
  const { from, to, preparation, options } = preparationOf(deps, context)
  const { fence, key } = preparation
  const { handoff, address } = await links.command(to, 'move.prepare', preparation, options)
  if (!address)
    return refuse('move_unreachable', 'the new host has no address for moves; set DORMOUSE_AGENT_MOVE_ADDRESS')
  const { handoff: sent } = await links.command(from, 'move.send', { fence, key, address, handoff }, options)
  return { sent }
}

/** Both hosts have a link to this replica, and dial their channels back to it. */
async function sendRelayed(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const { links, relays } = deps
  const { from, to, preparation, options } = preparationOf(deps, context)
  const { fence, key } = preparation
  const { operation, signal } = context
  const relay = relays.between({ operationId: operation.id, hostIds: [from, to], signal })
  try {
    const { handoff } = await links.command(to, 'move.prepare', { ...preparation, relay: relay.expect(to) }, options)
    const sending = { fence, key, address: null, handoff, relay: relay.expect(from) }
    const { handoff: sent } = await links.command(from, 'move.send', sending, options)
    // Keep the relay open, because the last bytes may not have arrived. `arrive` closes it.
    return { sent }
  } catch (error) {
    relay.close()
    throw error
  }
}

function preparationOf({ shares }: CarryContext, context: Move) {
  const { input, findings } = context.operation
  const { to, kind, imageDigest } = placed(context)
  const { hostId: from, tier } = input
  const spec = withShares(input.spec, tier, shares)
  const [fence, options] = [fenceOf(context), commandOptions(context)]
  const key = randomBytes(32).toString('base64url')
  return { from, to, options, preparation: { fence, kind, spec, imageDigest, key, handoff: findings.begun ?? '' } }
}

/** Checks that everything is complete on the new host. Nothing runs there yet. */
export async function arrive({ links, relays }: CarryContext, context: Move): Promise<MoveFindings> {
  const { to } = placed(context)
  const payload = { fence: fenceOf(context), handoff: context.operation.findings.sent ?? '' }
  const { handoff: arrived } = await links.command(to, 'move.arrive', payload, commandOptions(context))
  relays.close(context.operation.id)
  return { arrived }
}

/** The decision: once it is committed, the desktop belongs to the new host. Repeating it changes nothing. */
export async function decide({ leadership, hosts }: CarryContext, context: Move): Promise<MoveFindings> {
  const { operation, advance } = context
  const { desktopId, generationId, id, turn, input } = operation
  const { to, kind } = placed(context)
  await leadership.transaction(async (tx) => {
    const row = await lockAny(tx, desktopId)
    if (row?.hostId === to) return advance(tx, {})
    if (row?.hostId !== input.hostId || row.turn !== turn)
      refuse('superseded', 'a later request came before the move was decided')
    if (await hasFollower(tx, id, input.forWake))
      refuse('superseded', 'a request of the customer came before the move was decided')
    if (!(await hosts.arrive(tx, desktopId, to)))
      throw refusalWithCause('no_host', 'the new host was removed, or is lost')
    await together([
      moveTo(tx, desktopId, to, id),
      kind === 'live' && generationId ? startGeneration(tx, generationId, to) : Promise.resolve(),
      advance(tx, {}),
    ])
  })
  return {}
}

/** Whether the move was decided. Reads under the desktop's lock, so no decision is in flight. */
export async function isDecided(db: Db, { desktopId, findings }: MoveRow): Promise<boolean> {
  return findings.to !== undefined && (await lockAny(db, desktopId))?.hostId === findings.to
}

/** Lets the desktop run on the new host. If that fails now, it is deferred; the move is never undone. */
export async function settle({ links }: CarryContext, context: Move): Promise<MoveFindings> {
  const { to } = placed(context)
  const ask = (options: Options) => links.command(to, 'move.settle', { fence: decidedFence(context) }, options)
  const answer = await afterDecision(context, ask, lastTryMs)
  return 'why' in answer ? { settled: 'deferred', why: answer.why } : { settled: answer.state }
}

/** Removes everything from the old host, at once or when it is reachable again. */
export async function release({ links }: CarryContext, context: Move): Promise<MoveFindings> {
  const { input, findings } = context.operation
  const handoff = findings.arrived || null
  const ask = (options: Options) =>
    links.command(input.hostId, 'move.release', { fence: decidedFence(context), handoff }, options)
  // Only the operation waits for this, so there is no retry: an unreachable host gets the command when it returns.
  const answer = await afterDecision(context, ask, Number.POSITIVE_INFINITY)
  return 'why' in answer ? { released: 'deferred', why: answer.why } : { released: 'done' }
}

/** The fence of the commands after the decision. */
export const decidedFence = (context: Pick<StepContext, 'operation' | 'epoch' | 'remainingMs'>) => {
  const fence = fenceOf({ ...context, remainingMs: Math.max(context.remainingMs, decidedMs) })
  return { ...fence, turn: fence.turn + 1 }
}

type Options = ReturnType<typeof commandOptions>

/** Retries an unreachable host while more than `lastMs` is left. Any other failure is deferred. */
async function afterDecision<T extends object>(
  context: StepContext,
  ask: (options: Options) => Promise<T>,
  lastMs: number,
): Promise<T | { why: string }> {
  const began = performance.now()
  try {
    return await ask(commandOptions({ ...context, remainingMs: Math.max(context.remainingMs, decidedMs) }))
  } catch (error) {
    if (context.signal.aborted || !(error instanceof Refusal) || isOvertaken(error, 'leader')) throw error
    const leftMs = context.remainingMs - (performance.now() - began)
    if (error.code === 'host_unreachable' && leftMs > lastMs) throw error
    return { why: error.extra.cause ?? error.detail }
  }
}

/** Defers a command that a host cannot execute now, unless the host was removed. */
export async function later(
  { hosts }: Pick<CarryContext, 'hosts'>,
  tx: Db,
  { desktopId, generation, id: operationId }: Pick<OperationRow, 'desktopId' | 'generation' | 'id'>,
  hostId: string,
  command: DeferredCommand['command'],
  turn: number,
): Promise<void> {
  if (await hosts.isRemoved(hostId, tx)) return
  await defer(tx, { desktopId, hostId, command, generation, turn, operationId })
}

/** Defers the undos of a move that another operation cuts off before the decision. */
export async function takeBackLater(tx: Db, operation: OperationRow, from: string): Promise<void> {
  const to = operation.kind === 'move' ? moveFindings.parse(operation.findings).to : undefined
  if (to === undefined || to === from) return
  const { desktopId, generation, turn, id: operationId } = operation
  await defer(tx, { desktopId, hostId: to, command: 'move.abandon', generation, turn, operationId })
  await defer(tx, { desktopId, hostId: from, command: 'move.keep', generation, turn, operationId })
}

/** Undo of `send`: the new host drops what it has. */
export async function abandon(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const { to } = placed(context)
  const answer = await takeBack(deps, context, (payload, options) =>
    deps.links.command(to, 'move.abandon', payload, options),
  )
  return answer ? { abandoned: answer === 'deferred' ? 'deferred' : 'done' } : {}
}

/** Undo of `begin`: the desktop stays on its host. */
export async function keep(deps: CarryContext, context: Move): Promise<MoveFindings> {
  const answer = await takeBack(deps, context, (payload, options) =>
    deps.links.command(context.operation.input.hostId, 'move.keep', payload, options),
  )
  return answer ? { kept: answer === 'deferred' ? 'deferred' : answer.state } : {}
}

/** Undefined if the move was decided after all: then nothing is undone. */
async function takeBack<T>(
  { leadership, relays }: CarryContext,
  context: Move,
  ask: (payload: { fence: Fence }, options: Options) => Promise<T>,
): Promise<T | 'deferred' | undefined> {
  const { operation } = context
  relays.close(operation.id)
  if (await leadership.transaction((tx) => isDecided(tx, operation))) return undefined
  try {
    return await ask({ fence: fenceOf(context) }, commandOptions(context))
  } catch (error) {
    if (cannotBeDoneNow(error)) return 'deferred'
    throw error
  }
}

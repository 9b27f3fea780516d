// The new host's side of a move, up to the decision: it prepares, receives everything, and reports that once all is whole and
// on its disk. Nothing of the desktop runs here yet.
import type { Duplex } from 'node:stream'
import { type CommandPayload, type CommandResult, refuse } from '@dormouse/contract'
import { nothingHere } from '../desktops/journal-entry.ts'
import { look, markOf } from '../desktops/situation.ts'
import type { Turn } from '../desktops/turns.ts'
import type { Arrival, Entering } from '../driver/moves.ts'
import type { MoveTransfer } from '../transfer/transfer.ts'
import { receiveFiles } from './copy-in.ts'
import {
  type Arriving,
  filesHandoff,
  liveHandoff,
  readHandoff,
  requireOwn,
  requirePlausible,
  rootsHandoff,
} from './handoff.ts'
import { type HeldIn, heldIn, journalled, type MoveDeps, type OpenRelay, refuseInterrupted } from './held.ts'

type Preparation = Omit<CommandPayload<'move.prepare'>, 'fence' | 'relay'>

/** Ready to take the desktop, and listening for the other host. Repeated for a cold move, it goes on if a copy was cut. */
export async function prepare(
  deps: MoveDeps,
  turn: Turn,
  request: Preparation,
  openRelay: OpenRelay,
): Promise<CommandResult<'move.prepare'>> {
  const held = await makeReady(deps, turn, request)
  deps.listener.relay(held.moveId, await openRelay())
  return { handoff: held.entering?.handoff ?? '', address: held.address }
}

async function makeReady(deps: MoveDeps, turn: Turn, request: Preparation): Promise<HeldIn> {
  const { desktopId, operationId: moveId } = turn.fence
  const move = journalled(turn, 'in')
  const held = heldIn(deps, turn)
  if (held && !held.transfer.ended.aborted) {
    deps.listener.rekey(moveId, keyOf(request))
    return held
  }
  if (move?.phase === 'arrived') return refuse('hypervisor_failed', 'the desktop has arrived on this host already')
  if (move && request.kind === 'live') refuseInterrupted()
  deps.moves.end(desktopId)
  deps.moves.requireSpace()
  const arriving = readArriving(deps, turn, request)
  if (!move) await requireNothing(deps, turn)
  await requireDisk(deps, arriving)
  await turn.note({
    ...nothingHere,
    move: { moveId, direction: 'in', kind: request.kind, phase: 'moving' },
    departedAt: null,
    spec: request.spec,
    ready: arriving.ready,
    furnished: arriving.furnished,
  })
  await deps.failpoints.hit('move.prepare.after-note')
  if (request.kind === 'live') await deps.templates.giveWay(request.spec.memoryMiB)
  const entering =
    request.kind === 'live'
      ? await deps.driver.moves.enter(arrivalOf(deps, turn, arriving), hypervisorOf(request))
      : undefined
  try {
    const held = await listen(deps, turn, request, arriving, entering)
    deps.moves.hold(desktopId, held)
    return held
  } catch (error) {
    entering?.close()
    throw error
  }
}

async function listen(
  deps: MoveDeps,
  turn: Turn,
  request: Preparation,
  arriving: Arriving,
  entering: Entering | undefined,
): Promise<HeldIn> {
  const { desktopId, operationId: moveId } = turn.fence
  let held: HeldIn | undefined
  const onStream = (name: string, stream: Duplex, transfer: MoveTransfer) => {
    if (entering) joinEntering(entering, name, stream, transfer)
    else if (held && name === 'files' && !held.received)
      held.received = received(deps, desktopId, receive(deps, desktopId, arriving, stream, transfer))
    else transfer.end(new Error(`the other host opened a stream "${name}" that is not expected`))
  }
  const expected = await deps.listener.expect({ moveId, key: keyOf(request), onStream })
  held = {
    moveId,
    direction: 'in',
    entering,
    arriving,
    ...expected,
    received: undefined,
    arrived: undefined,
    close: () => {
      expected.transfer.end()
      entering?.close()
    },
  }
  return held
}

function joinEntering(entering: Entering, name: string, stream: Duplex, transfer: MoveTransfer): void {
  entering.open(name).then(
    (near) => transfer.join(near, stream),
    (error: Error) => transfer.end(error),
  )
}

async function receive(
  deps: MoveDeps,
  desktopId: string,
  { files }: Arriving,
  stream: Duplex,
  transfer: MoveTransfer,
): Promise<Record<string, string>> {
  const { diskBytes, memory } = files!
  const disk = { path: await deps.driver.moves.arrivingDiskPath(desktopId), bytes: diskBytes }
  const memoryFile = memory && { path: deps.memory.arrivingPath(desktopId), bytes: memory.bytes }
  return receiveFiles(transfer, stream, { disk, ...(memoryFile && { memory: memoryFile }) })
}

/** A copy that was cut is no unhandled error, which would end the agent: `arrive` reports it, if it comes so far. */
function received<T>({ log }: MoveDeps, desktopId: string, receiving: Promise<T>): Promise<T> {
  receiving.catch((error: unknown) => log.info({ err: error, desktopId }, 'a copy did not arrive'))
  return receiving
}

const keyOf = ({ key }: Preparation): Buffer => Buffer.from(key, 'base64url')
const hypervisorOf = ({ handoff }: Preparation): string => readHandoff(liveHandoff, handoff).hypervisor

function readArriving({ installationId }: MoveDeps, { fence }: Turn, request: Preparation): Arriving {
  const { kind, spec, imageDigest, handoff } = request
  const files = kind === 'cold' ? readHandoff(filesHandoff, handoff) : undefined
  if (files) requirePlausible(files, spec)
  if (files?.memory) requireOwn(files.memory.manifest, fence.desktopId, installationId)
  const { ready, furnished } = files ?? readHandoff(liveHandoff, handoff)
  return { spec, imageDigest, ready, furnished, files }
}

/** A disk or a process of the desktop that no move has brought here is never overwritten. */
async function requireNothing(deps: MoveDeps, turn: Turn): Promise<void> {
  const { domain, disk, images } = await look(deps, turn.fence.desktopId)
  if (domain || disk || images.length > 0)
    refuse('hypervisor_failed', 'this host still has an older part of the desktop')
}

async function requireDisk({ driver }: MoveDeps, { files }: Arriving): Promise<void> {
  const need = (files?.diskBytes ?? 0) + (files?.memory?.bytes ?? 0)
  if ((await driver.freeDiskBytes()) < need) refuse('host_disk_full', 'the host’s disk has no space for the desktop')
}

const arrivalOf = (deps: MoveDeps, { fence }: Turn, { spec, imageDigest, furnished }: Arriving): Arrival => {
  return { spec, imageDigest, furnished, mark: markOf(deps, fence) }
}

/** All is here, whole and on the disk. Only from here on can the control plane decide for this host. */
export async function arrive(deps: MoveDeps, turn: Turn, handoff: string): Promise<CommandResult<'move.arrive'>> {
  const held = heldIn(deps, turn)
  if (held?.arrived !== undefined) return { handoff: held.arrived }
  const move = journalled(turn, 'in')
  // After a restart: the answer was lost, and only the source's confirmation needs the handoff.
  if (move?.phase === 'arrived') return { handoff: '' }
  if (!held || !move) return refuseInterrupted()
  // The hypervisor may wait for bytes that never come: an undo closes what it waits for.
  const stop = () => deps.moves.end(turn.fence.desktopId)
  turn.signal.addEventListener('abort', stop, { once: true })
  try {
    const arrived = held.entering
      ? await finish(deps, turn, held.entering, handoff)
      : await arriveAsleep(deps, turn, held, handoff)
    await deps.failpoints.hit('move.arrive.before-note')
    turn.signal.throwIfAborted()
    await turn.note({ disk: 'used', move: { ...move, phase: 'arrived' } })
    held.arrived = arrived
    return { handoff: arrived }
  } finally {
    turn.signal.removeEventListener('abort', stop)
  }
}

/** A failure ends the hypervisor's part. A retry then fails for good, so that the paused guest goes on at its old host soon. */
async function finish(deps: MoveDeps, turn: Turn, entering: Entering, handoff: string): Promise<string> {
  try {
    return await entering.finish(handoff)
  } catch (error) {
    deps.moves.end(turn.fence.desktopId)
    throw error
  }
}

async function arriveAsleep(deps: MoveDeps, turn: Turn, held: HeldIn, handoff: string): Promise<string> {
  const { desktopId } = turn.fence
  const { moves } = deps.driver
  const sent = readHandoff(rootsHandoff, handoff)
  const stored = held.received ? await held.received : refuseInterrupted()
  for (const [name, root] of Object.entries(stored)) {
    if (sent[name] !== root) refuse('hypervisor_failed', 'what has arrived is not what the other host sent')
  }
  const arrival = arrivalOf(deps, turn, held.arriving)
  const memory = held.arriving.files?.memory
  if (memory) await moves.requireHarmless(arrival, deps.memory.arrivingPath(desktopId))
  await moves.adoptDisk(arrival)
  if (memory) {
    const image = await deps.memory.adopt(memory.manifest)
    deps.memory.verify(image)
    await deps.memory.verifyDigest(image, turn.signal)
  }
  return ''
}

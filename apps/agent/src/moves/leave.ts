// The old host's side of a move, up to the decision: the desktop is held, then sent. Until the control plane has decided,
// everything stays here.
import {
  type CommandPayload,
  type CommandResult,
  type MoveKind,
  Refusal,
  type Report,
  refuse,
} from '@dormouse/contract'
import { emptyUnidentified } from '../desktops/first-wake.ts'
import { growDisk } from '../desktops/furnishing.ts'
import { finished, lookAtRest, type Situation } from '../desktops/situation.ts'
import type { Turn } from '../desktops/turns.ts'
import { dropWarmCopy } from '../desktops/warm-copies.ts'
import { setClock } from '../guest/catch-up.ts'
import { DialledTransfer } from '../transfer/dial.ts'
import type { MoveTransfer } from '../transfer/transfer.ts'
import { sendFiles } from './copy-out.ts'
import type { FilesHandoff } from './handoff.ts'
import { type HeldOut, heldOut, journalled, type MoveDeps, type OpenRelay, refuseInterrupted } from './held.ts'

const progressEveryMs = 500
/** A guest whose memory, or all of it with its disk, was sent this often changes faster than it can be moved. */
const mostRounds = 3
/** Not counted as a round: what a small guest has beside its memory and its disk. */
const slackBytes = 64 * 1024 * 1024

/** Holds the desktop for the move. Its guest, if it is awake, notices nothing. */
export async function begin(deps: MoveDeps, turn: Turn, kind: MoveKind): Promise<CommandResult<'move.begin'>> {
  const { desktopId, operationId: moveId } = turn.fence
  const held = heldOut(deps, turn)
  if (held) return { handoff: held.handoff }
  journalled(turn, 'out')
  deps.moves.end(desktopId)
  deps.moves.requireSpace()
  await deps.digests.stop(desktopId)
  await emptyUnidentified(deps, turn)
  // What is copied is the file. A process beside it would keep its disk open.
  await dropWarmCopy(deps, turn)
  const now = await lookAtRest(deps, desktopId)
  if (!now.disk) refuse('disk_missing', 'the desktop’s disk is not on this host')
  if (kind === 'live') {
    requireRunning(now)
    // The new host's is made as large as the desktop's is to be.
    await growDisk(deps, turn)
  }
  const { files, memoryPath } = kind === 'cold' ? await filesOf(deps, turn, now) : {}
  await turn.note({ move: { moveId, direction: 'out', kind, phase: 'moving' } })
  await deps.failpoints.hit('move.begin.after-note')
  const leaving = kind === 'live' ? await deps.driver.moves.leave(desktopId) : undefined
  const { ready, furnished } = turn.entry()
  const handoff = leaving ? { hypervisor: leaving.handoff, ready, furnished } : files
  const out: HeldOut = {
    moveId,
    direction: 'out',
    handoff: JSON.stringify(handoff),
    leaving,
    files,
    memoryPath,
    transfer: undefined,
    sent: undefined,
    close: () => {
      out.transfer?.end()
      leaving?.close()
    },
  }
  deps.moves.hold(desktopId, out)
  return { handoff: out.handoff }
}

function requireRunning({ domain }: Situation): void {
  if (!domain) refuse('not_awake', 'the desktop does not run on this host')
  if (domain.state !== 'running') refuse('hypervisor_failed', 'the desktop is paused on its host; it cannot move now')
}

async function filesOf(
  deps: MoveDeps,
  turn: Turn,
  now: Situation,
): Promise<{ files: FilesHandoff; memoryPath?: string }> {
  if (now.domain && now.domain.state !== 'stopped') refuse('hypervisor_failed', 'the desktop is awake; move it live')
  const { ready, furnished } = turn.entry()
  const diskBytes = await deps.driver.moves.diskBytes(turn.fence.desktopId)
  const image = now.usable && (await finished(deps, now.usable))
  if (!image) return { files: { diskBytes, ready, furnished, memory: null } }
  deps.memory.verify(image)
  return {
    files: { diskBytes, ready, furnished, memory: { bytes: image.bytes!, manifest: image.manifest } },
    memoryPath: image.path,
  }
}

/** Sends everything. When this returns, a desktop that ran is paused here. If it fails, its guest runs on. */
export async function send(
  deps: MoveDeps,
  turn: Turn,
  { key, address, handoff }: Omit<CommandPayload<'move.send'>, 'fence' | 'relay'>,
  openRelay: OpenRelay,
): Promise<CommandResult<'move.send'>> {
  const held = heldOut(deps, turn) ?? refuseInterrupted()
  if (held.sent !== undefined) return { handoff: held.sent }
  // The connection to the screen does not move with the guest.
  using _released = await deps.inputs.hold(turn.fence.desktopId, 'the desktop is moving to another host')
  const transfer = await DialledTransfer.open({
    moveId: held.moveId,
    route: address ?? (await openRelay()),
    key: Buffer.from(key, 'base64url'),
    pace: deps.pace,
    log: deps.log,
    signal: turn.signal,
    ...(deps.transferTimes && { times: deps.transferTimes }),
  })
  held.transfer = transfer
  reportBytes(deps, turn, transfer, { doneBytes: null, totalBytes: null })
  await deps.failpoints.hit('move.send.after-dial')
  try {
    held.sent = held.leaving
      ? await sendRunning(deps, turn, held, transfer, handoff)
      : await sendAsleep(deps, turn, held, transfer)
  } catch (error) {
    transfer.end(error as Error)
    // libvirt's job is over; a copy can go on where it stopped.
    if (held.leaving) deps.moves.end(turn.fence.desktopId)
    turn.signal.throwIfAborted()
    throw refusalOf(error, transfer)
  }
  await deps.failpoints.hit('move.send.after-send')
  return { handoff: held.sent }
}

/** The transfer's end is the cause of what fails after it. */
function refusalOf(error: unknown, { ended }: MoveTransfer): Refusal {
  const cause: unknown = ended.reason ?? error
  if (cause instanceof Refusal) return cause
  if (error instanceof Refusal) return error
  const why = cause instanceof Error ? cause.message : String(cause)
  return Object.assign(new Refusal('hypervisor_failed', `the move was cut: ${why}`), { cause })
}

async function sendRunning(
  deps: MoveDeps,
  turn: Turn,
  { leaving }: HeldOut,
  transfer: DialledTransfer,
  handoff: string,
): Promise<string> {
  const wholeBytes = await wholeOf(deps, turn)
  const check = async () => {
    const progress = await leaving!.progress()
    if (progress) reportBytes(deps, turn, transfer, { doneBytes: progress.doneBytes, totalBytes: progress.totalBytes })
    const rounds = Math.max(progress?.memoryRounds ?? 0, transfer.bytes / wholeBytes)
    if (rounds > mostRounds) transfer.end(new Refusal('move_not_converging'))
  }
  const timer = setInterval(() => {
    check().catch((error: unknown) => deps.log.debug({ err: error }, 'the progress of a move could not be read'))
  }, progressEveryMs)
  try {
    return await leaving!.send(
      handoff,
      (name, near) => {
        transfer.keep(near)
        transfer.open(name).then(
          (far) => transfer.join(near, far),
          (error: Error) => transfer.end(error),
        )
      },
      transfer.ended,
    )
  } finally {
    clearInterval(timer)
  }
}

/** As many bytes as the guest has in its memory and on its disk. */
async function wholeOf({ driver }: MoveDeps, turn: Turn): Promise<number> {
  const memoryBytes = (turn.entry().spec?.memoryMiB ?? 0) * 1024 * 1024
  return memoryBytes + (await driver.moves.diskBytes(turn.fence.desktopId)) + slackBytes
}

async function sendAsleep(
  deps: MoveDeps,
  turn: Turn,
  { files, memoryPath }: HeldOut,
  transfer: DialledTransfer,
): Promise<string> {
  const { desktopId } = turn.fence
  const { diskBytes, memory } = files!
  const disk = { name: 'disk', path: deps.driver.moves.diskPath(desktopId), bytes: diskBytes }
  const all = memory && memoryPath ? [disk, { name: 'memory', path: memoryPath, bytes: memory.bytes }] : [disk]
  const totalBytes = diskBytes + (memory?.bytes ?? 0)
  let reportedAt = 0
  const roots = await sendFiles(transfer, await transfer.open('files'), all, (doneBytes) => {
    if (performance.now() - reportedAt < progressEveryMs) return
    reportedAt = performance.now()
    reportBytes(deps, turn, transfer, { doneBytes, totalBytes })
  })
  return JSON.stringify(roots)
}

type Bytes = Pick<Report<'operation.progress'>, 'doneBytes' | 'totalBytes'>

function reportBytes({ report }: MoveDeps, { fence }: Turn, { isRelayed }: DialledTransfer, bytes: Bytes): void {
  const { desktopId, operationId } = fence
  const phase = isRelayed ? 'relaying' : 'moving'
  report('operation.progress', { desktopId, operationId, phase, ...bytes })
}

/** Ends what this process has open to the other host, and makes the desktop go on here as it was. */
export async function keep(deps: MoveDeps, turn: Turn): Promise<CommandResult<'move.keep'>> {
  const { desktopId } = turn.fence
  journalled(turn, 'out')
  const held = heldOut(deps, turn)
  await held?.leaving?.cancel().catch((error: unknown) => {
    deps.log.info({ err: error, desktopId }, 'a move could not be cancelled; its guest is resumed')
  })
  deps.moves.end(desktopId)
  await deps.failpoints.hit('move.keep.before-resume')
  const { domain, usable } = await lookAtRest(deps, desktopId)
  const wasAwake = turn.entry().running
  if (domain?.state === 'paused' && wasAwake) await deps.driver.resume(desktopId)
  // A process that holds the desktop's only memory counts, whatever else is known of it.
  const isAwake = domain !== undefined && (wasAwake || (domain.state !== 'stopped' && !usable))
  await deps.driver.moves.forget(desktopId)
  await turn.note({ move: null, running: isAwake })
  if (isAwake) {
    void setClock(deps, desktopId)
    return { state: 'awake' }
  }
  if (usable && !usable.manifest.sha256) deps.digests.begin(desktopId, usable.file)
  return { state: usable ? 'hibernated' : 'stopped' }
}

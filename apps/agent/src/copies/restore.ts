// Brings a desktop back from a vault, asleep. The files are read beside what the host has of it; only when all of them are here,
// whole, does the old state give way. From then on the older memory is spent, and a repeat goes on until the copy is in place.
import { rm } from 'node:fs/promises'
import { type DesktopId, type DesktopSpec, refuse } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { RemoveDeps } from '../desktops/destroy.ts'
import { reportPhase, type SendReport } from '../desktops/report.ts'
import { isWarm, type LookDeps, lookAtRest, markOf, removeSpent, spendAll } from '../desktops/situation.ts'
import type { Turn } from '../desktops/turns.ts'
import type { Arrival } from '../driver/moves.ts'
import { syncPath } from '../mechanics/durable-file.ts'
import { readHandoff, requireOwn, requirePlausible } from '../moves/handoff.ts'
import type { Repository } from '../vaults/repository.ts'
import { copyHandoff } from './handoff.ts'

export interface RestoreDeps extends LookDeps, RemoveDeps {
  driver: LookDeps['driver'] & RemoveDeps['driver']
  memory: LookDeps['memory']
  installationId: string
  report: SendReport
  failpoints: Failpoints
}

export interface RestoreRequest {
  snapshot: string
  spec: DesktopSpec
  imageDigest: string
  handoff: string
  /** False if its memory was used since, or belongs to another desktop: then it boots from its disk. */
  memory: boolean
}

/** The desktop sleeps here with what the copy has. */
export async function restore(
  deps: RestoreDeps,
  turn: Turn,
  repository: Repository,
  request: RestoreRequest,
): Promise<{ state: 'hibernated' | 'stopped' }> {
  const { desktopId } = turn.fence
  const { names, files } = readHandoff(copyHandoff, request.handoff)
  requirePlausible(files, request.spec)
  const memory = request.memory ? files.memory : null
  if (memory) requireOwn(memory.manifest, desktopId, deps.installationId)
  await requireAtRest(deps, desktopId)
  const { moves } = deps.driver
  if (!(await moves.hasImage(request.imageDigest)))
    refuse('image_unavailable', 'the host does not have the image of the desktop’s disk')
  if ((await deps.driver.freeDiskBytes()) < files.diskBytes + (memory?.bytes ?? 0))
    refuse('host_disk_full', 'the host’s disk has no space for the copy')
  reportPhase(deps.report, turn.fence, 'restoring')
  const diskPath = await moves.arrivingDiskPath(desktopId)
  const memoryPath = deps.memory.arrivingPath(desktopId)
  const arrival: Arrival = {
    spec: request.spec,
    mark: markOf(deps, turn.fence),
    imageDigest: request.imageDigest,
    furnished: files.furnished,
  }
  try {
    const { snapshot } = request
    await repository.read(snapshot, { name: names.disk, bytes: files.diskBytes, to: diskPath }, turn.signal)
    if (memory && names.memory) {
      await repository.read(snapshot, { name: names.memory, bytes: memory.bytes, to: memoryPath }, turn.signal)
      await syncPath(memoryPath)
      await moves.requireHarmless(arrival, memoryPath)
    }
    await deps.failpoints.hit('restore.before-swap')
    turn.signal.throwIfAborted()
  } catch (error) {
    await Promise.all([rm(diskPath, { force: true }), rm(memoryPath, { force: true })])
    throw error
  }
  await swap(deps, turn, arrival, request, memory?.manifest)
  return { state: memory ? 'hibernated' : 'stopped' }
}

async function requireAtRest(deps: RestoreDeps, desktopId: DesktopId): Promise<void> {
  const now = await lookAtRest(deps, desktopId)
  if (now.domain && now.domain.state !== 'stopped' && !isWarm(now))
    refuse('hypervisor_failed', 'the desktop runs on this host; hibernate it first')
  if (now.domain) await deps.driver.kill(desktopId)
}

type Memory = Parameters<LookDeps['memory']['adopt']>[0]

/** No older memory fits the new disk: it is spent first. */
async function swap(
  deps: RestoreDeps,
  turn: Turn,
  arrival: Arrival,
  { spec }: RestoreRequest,
  manifest: Memory | undefined,
): Promise<void> {
  const { desktopId } = turn.fence
  await deps.digests.stop(desktopId)
  await spendAll(deps, turn, { spec, departedAt: null, running: false, furnished: arrival.furnished })
  await deps.failpoints.hit('restore.after-spend')
  await deps.guests.forget(desktopId)
  await deps.driver.moves.replaceDisk(arrival)
  await deps.failpoints.hit('restore.after-disk')
  await removeSpent(deps, desktopId)
  if (manifest) {
    const image = await deps.memory.adopt(manifest)
    deps.memory.verify(image)
  }
  await turn.note({ disk: 'used', identity: 'own', spent: [] })
}

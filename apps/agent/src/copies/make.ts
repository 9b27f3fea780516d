// Copies a desktop that sleeps into a vault: its disk, and its saved memory if it has one. Nothing writes to these files while it
// sleeps. A command that takes the desktop's turn stops the copy at once, and a copy counts only if no turn began meanwhile.
import { type DesktopId, type MadeCopy, refuse } from '@dormouse/contract'
import type { Failpoints, Log } from '@dormouse/process'
import { comparePairs, type Entry, type Pair } from '../desktops/journal-entry.ts'
import { finished, isWarm, type LookDeps, look } from '../desktops/situation.ts'
import type { Turns } from '../desktops/turns.ts'
import type { Repository } from '../vaults/repository.ts'
import type { CopyHandoff } from './handoff.ts'

export interface MakeDeps extends LookDeps {
  turns: Pick<Turns, 'busy'>
  failpoints: Failpoints
  log: Log
}

export interface MakeRequest extends Pair {
  desktopId: DesktopId
  /** The desktop's snapshot before, whose unchanged files are not read again. */
  parent: string | undefined
}

/** A file of this host, and its name in snapshots. */
interface CopiedFile {
  path: string
  bytes: number
}

export async function makeCopy(
  deps: MakeDeps,
  repository: Repository,
  request: MakeRequest,
  signal: AbortSignal,
): Promise<MadeCopy> {
  const { desktopId, parent } = request
  const entry = requireAsleep(deps, request)
  const { disk, memory, handoff, traits } = await filesOf(deps, desktopId, entry)
  const files = memory ? [disk, memory] : [disk]
  const snapshot = await repository.backup(
    { folder: '/', files: files.map(({ path }) => nameOf(path)), host: desktopId, tags: ['dormouse'], parent },
    signal,
  )
  try {
    await deps.failpoints.hit('copy.after-backup')
    // A turn that began meanwhile may have written to the files while they were read.
    requireAsleep(deps, request)
    signal.throwIfAborted()
  } catch (error) {
    await repository.forget([snapshot.id], AbortSignal.timeout(forgetMs)).catch((second: unknown) => {
      deps.log.warn({ err: second, desktopId }, 'a copy that does not count could not be removed from its vault')
    })
    throw error
  }
  return {
    snapshot: snapshot.id,
    kind: memory ? 'memory' : 'disk',
    sizeBytes: files.reduce((sum, { bytes }) => sum + bytes, 0),
    addedBytes: snapshot.addedBytes,
    traits,
    handoff: JSON.stringify(handoff satisfies CopyHandoff),
  }
}

const forgetMs = 60_000

/** restic's names are relative to its working folder, the root. */
export const nameOf = (path: string): string => path.slice(1)

function requireAsleep({ journal, turns }: MakeDeps, { desktopId, ...seen }: MakeRequest): Entry {
  const entry = journal.read(desktopId)
  if (!entry || entry.destroyedAt || entry.departedAt)
    return refuse('unknown_desktop', 'the desktop is not on this host')
  if (turns.busy(desktopId) || entry.move || comparePairs(entry, seen) !== 0)
    return refuse('superseded', 'the desktop is in use, so it is not copied now')
  if (entry.disk !== 'used' || entry.identity === 'template')
    return refuse('superseded', 'the desktop has not run yet, so there is nothing to copy')
  return entry
}

async function filesOf(deps: MakeDeps, desktopId: DesktopId, { ready, furnished }: Entry) {
  const now = await look(deps, desktopId)
  if (!now.disk) return refuse('disk_missing', 'the desktop’s disk is not on this host')
  if (now.domain && now.domain.state !== 'stopped' && !isWarm(now))
    return refuse('superseded', 'the desktop is awake, so it is not copied now')
  const { moves } = deps.driver
  const diskBytes = await moves.diskBytes(desktopId)
  const disk: CopiedFile = { path: moves.diskPath(desktopId), bytes: diskBytes }
  const image = now.usable && (await finished(deps, now.usable))
  if (image) deps.memory.verify(image)
  const memory: CopiedFile | undefined = image && { path: image.path, bytes: image.bytes! }
  const found = await moves.traits(desktopId, image?.path)
  return {
    disk,
    memory,
    traits: { ...found, memoryBytes: image?.bytes ?? 0 },
    handoff: {
      names: { disk: nameOf(disk.path), memory: memory ? nameOf(memory.path) : null },
      files: {
        diskBytes,
        ready,
        furnished,
        memory: image ? { bytes: image.bytes!, manifest: image.manifest } : null,
      },
    },
  }
}

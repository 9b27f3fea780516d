// The size that a desktop has on this host: a guest and a saved memory keep theirs, and a disk grows before a boot.
import { type CommandPayload, type CommandResult, type DesktopSpec, Refusal } from '@dormouse/contract'
import type { Failpoints } from '@dormouse/process'
import type { Driver } from '../driver/driver.ts'
import type { MemoryImage } from './memory-images.ts'
import type { Turn } from './turns.ts'

interface SizeDeps {
  driver: Pick<Driver, 'diskGiB' | 'growDisk'>
  failpoints: Failpoints
}

type WakeRequest = Pick<CommandPayload<'desktop.ensureAwake'>, 'spec' | 'nextDiskGiB'>

/** The size of its disk: of one that began with a smaller template, the size that it is to get. */
export async function diskGiBOf({ driver }: { driver: Pick<Driver, 'diskGiB'> }, turn: Turn): Promise<number> {
  return Math.max(turn.entry().spec?.diskGiB ?? 1, await driver.diskGiB(turn.fence.desktopId))
}

/** As the journal has it. */
export function sizeOf(turn: Turn): Pick<CommandResult<'desktop.ensureAwake'>, 'size'> {
  const { spec } = turn.entry()
  return spec ? { size: { vcpus: spec.vcpus, memoryMiB: spec.memoryMiB, diskGiB: spec.diskGiB } } : {}
}

/** A guest that runs keeps the size with which it was begun. */
export function specOfRunning(turn: Turn, { spec }: WakeRequest): DesktopSpec {
  const { vcpus, memoryMiB, diskGiB } = turn.entry().spec ?? spec
  return { ...spec, vcpus, memoryMiB, diskGiB }
}

/** A saved memory keeps its processors and its size. Its disk grows at a boot, but an interrupted wake may have done that. */
export async function specOfSaved(
  { driver }: Pick<SizeDeps, 'driver'>,
  turn: Turn,
  image: MemoryImage | undefined,
  { spec, nextDiskGiB }: WakeRequest,
): Promise<DesktopSpec> {
  const diskGiB = nextDiskGiB ? await diskGiBOf({ driver }, turn) : (turn.entry().spec?.diskGiB ?? spec.diskGiB)
  return { ...spec, ...image?.manifest.guest, diskGiB }
}

/** Makes the disk larger before a boot, if that was requested. The guest makes its file system larger. */
export async function grown(
  { driver, failpoints }: SizeDeps,
  turn: Turn,
  { spec, nextDiskGiB }: WakeRequest,
): Promise<DesktopSpec> {
  const { desktopId } = turn.fence
  const diskGiB = Math.max(spec.diskGiB, turn.entry().spec?.diskGiB ?? 0)
  if (!nextDiskGiB) return { ...spec, diskGiB }
  await failpoints.hit('wake.before-grow')
  turn.signal.throwIfAborted()
  await driver.growDisk(desktopId, nextDiskGiB).catch((cause: unknown) => {
    if (!(cause instanceof Refusal) || cause.code !== 'hypervisor_failed') throw cause
    throw Object.assign(new Refusal('disk_not_grown', cause.detail), { cause })
  })
  await failpoints.hit('wake.after-grow')
  turn.signal.throwIfAborted()
  return { ...spec, diskGiB: Math.max(diskGiB, nextDiskGiB) }
}

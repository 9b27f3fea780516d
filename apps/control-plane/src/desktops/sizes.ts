// Tier and disk of a desktop: what a change sets, what a wake begins with, and what its host found. Pure.
import { type ChangeDesktopBody, type DesktopSize, refuseField, type Tier } from '@dormouse/contract'
import type { Asleep, WakeInput } from './operations/stored.ts'
import type { FoundSize } from './size-store.ts'
import type { Assignment, DesktopRow } from './store.ts'

export interface TierSize {
  vcpus: number
  memoryMiB: number
  diskGiB: number
}

export interface SizeOptions {
  tiers: Record<Tier, TierSize>
  /** The largest disk that a desktop can grow to. */
  maxDiskGiB: number
}

/**
 * What a PATCH sets. A desktop that has nothing on any host has the new size at once; any other, at its next boot. A tier
 * changes processors and memory; the disk stays, and only grows.
 */
export function sizeChanges(
  { tier, disk_gib: diskGiB }: ChangeDesktopBody,
  desktop: DesktopRow,
  { tiers, maxDiskGiB }: SizeOptions,
): Assignment[] {
  if (diskGiB !== undefined) requireGrowth(desktop, diskGiB, Math.max(maxDiskGiB, desktop.diskGiB))
  const isNowhere = desktop.state === 'created' && desktop.hostId === null
  const chosen = tier && { tier, ...tiers[tier] }
  const waits = !isNowhere && tier !== desktop.tier
  const nextDisk = isNowhere || diskGiB === desktop.diskGiB ? null : diskGiB
  return [
    ...(chosen && isNowhere ? tierChange('', chosen) : []),
    ...(chosen ? tierChange('next_', waits ? chosen : undefined) : []),
    ...(diskGiB !== undefined && isNowhere ? [{ column: 'disk_gib', value: diskGiB }] : []),
    ...(diskGiB !== undefined ? [{ column: 'next_disk_gib', value: nextDisk }] : []),
  ]
}

const tierChange = (prefix: string, to: ({ tier: Tier } & TierSize) | undefined): Assignment[] => [
  { column: `${prefix}tier`, value: to?.tier ?? null },
  { column: `${prefix}vcpus`, value: to?.vcpus ?? null },
  { column: `${prefix}memory_mib`, value: to?.memoryMiB ?? null },
]

function requireGrowth(desktop: DesktopRow, diskGiB: number, most: number): void {
  const least = desktop.nextDiskGiB ?? desktop.diskGiB
  if (diskGiB < least) refuseField('disk_gib', `must be at least ${least}, because a disk only grows`)
  if (diskGiB > most) refuseField('disk_gib', `must be at most ${most}`)
}

type Sizes = NonNullable<WakeInput['sizes']>
type Sized = Pick<WakeInput, 'spec' | 'sizes'>

/** What a wake of the desktop needs to know of its sizes. */
export function sizesOf({ nextTier, nextVcpus, nextMemoryMiB, nextDiskGiB }: DesktopRow): Sizes {
  const isNext = nextTier && nextVcpus && nextMemoryMiB
  return { next: isNext ? { tier: nextTier, vcpus: nextVcpus, memoryMiB: nextMemoryMiB } : null, nextDiskGiB }
}

/** Whether it goes on from its saved memory. */
const isResumed = ({ from, discardMemory }: WakeInput): boolean => from === 'hibernated' && !discardMemory

/** The tier that the wake gives the desktop; undefined if a replica of release 0.1 has accepted it. */
export const tierOfWake = (input: WakeInput): Tier | undefined =>
  (isResumed(input) ? undefined : input.sizes?.next?.tier) ?? input.tier

/** The size that the wake gives the desktop. A boot gives it what waits for that; a saved memory keeps its own. */
export function sizeOfWake(input: WakeInput): DesktopSize {
  const { vcpus, memoryMiB, diskGiB } = input.spec
  const { next, nextDiskGiB } = isResumed(input) ? {} : (input.sizes ?? {})
  return {
    vcpus: next?.vcpus ?? vcpus,
    memoryMiB: next?.memoryMiB ?? memoryMiB,
    diskGiB: nextDiskGiB ?? diskGiB,
  }
}

/**
 * The size that the desktop has on its host. An agent that does not report it has never changed a disk, and gives each boot its
 * new tier. No host is believed about a disk that nobody has requested.
 */
export function sizeFound(
  { spec, sizes }: Sized,
  size: DesktopSize | undefined,
  { booted }: { booted: boolean },
): FoundSize | undefined {
  if (!sizes) return undefined
  const { next, nextDiskGiB } = sizes
  const reported = Math.min(size?.diskGiB ?? 0, nextDiskGiB ?? 0)
  const diskGiB = Math.max(spec.diskGiB, reported)
  if (!next) return { tier: null, diskGiB }
  const fits = (one: Pick<DesktopSize, 'vcpus' | 'memoryMiB'>) =>
    size !== undefined && one.vcpus === size.vcpus && one.memoryMiB === size.memoryMiB
  const isNext = fits(next) === fits(spec) ? booted : fits(next)
  return { tier: isNext ? next : null, diskGiB }
}

/** The same after an undo: a disk that has grown stays so, and only a memory that was saved has another tier. */
export function sizeKept(of: Sized, asleep: Exclude<Asleep, 'deferred'> | undefined): FoundSize | undefined {
  const found = sizeFound(of, asleep?.size, { booted: false })
  return found && asleep?.state !== 'hibernated' ? { ...found, tier: null } : found
}

/** Whether there is anything to store. */
export const isNew = ({ spec }: Pick<WakeInput, 'spec'>, { tier, diskGiB }: FoundSize): boolean =>
  tier !== null || diskGiB !== spec.diskGiB

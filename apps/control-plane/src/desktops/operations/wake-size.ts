// The size that a wake gives its desktop: what it needs on a host, what the host is told, and what was then found there.
import type { Shares, Tier } from '@dormouse/contract'
import { together } from '@dormouse/process'
import type { Db } from '../../db/pool.ts'
import type { Hosts } from '../../hosts/service.ts'
import type { Position } from '../../operations/definition.ts'
import type { NewOperation, OperationRow } from '../../operations/store.ts'
import { withShares } from '../shares.ts'
import { type FoundSize, takeSize } from '../size-store.ts'
import { isNew, sizeFound, sizeKept, sizeOfWake, tierOfWake } from '../sizes.ts'
import { diskRequest } from './image-of-wake.ts'
import type { WakeFindings, WakeInput } from './stored.ts'

type WakeRow = OperationRow<WakeInput, WakeFindings>

export function placementOf({ desktopId, input }: Pick<NewOperation<WakeInput>, 'desktopId' | 'input'>) {
  const { spec, onHost: only } = input
  return { desktopId, ...sizeOfWake(input), image: spec.imageVersion, only, growsDisk: growsDisk(input) }
}

/** Whether this wake makes a disk larger that is on a host already. */
export const growsDisk = (input: WakeInput): boolean =>
  input.hostId !== null && sizeOfWake(input).diskGiB > input.spec.diskGiB

/** The disk's present size is part of what an agent has to find; the next one it makes before a boot. */
export function bootRequest(shares: Record<Tier, Shares>, operation: WakeRow) {
  const { input } = operation
  const { vcpus, memoryMiB } = sizeOfWake(input)
  const { spec, ...image } = diskRequest(operation)
  const sized = withShares({ ...spec, vcpus, memoryMiB }, tierOfWake(input), shares)
  const nextDiskGiB = input.sizes?.nextDiskGiB
  return { ...image, spec: sized, ...(nextDiskGiB && { nextDiskGiB }) }
}

function foundBy({ input, findings }: Position<WakeInput, WakeFindings>): FoundSize | undefined {
  return sizeFound(input, findings.size, { booted: findings.resumedFrom !== 'memory' })
}

/** To be called before the desktop settles as awake, so that what is billed from now on is the new tier. */
export async function takeFound(hosts: Hosts, tx: Db, operation: WakeRow): Promise<void> {
  const { desktopId, input } = operation
  const found = foundBy(operation)
  if (!found) return
  const taking = isNew(input, found) ? takeSize(tx, desktopId, found) : Promise.resolve()
  await together([taking, reserveFound(hosts, tx, operation, found)])
}

/** It holds what it was found to have, which is less or more than expected if it went on from a memory or grew no disk. */
async function reserveFound(hosts: Hosts, tx: Db, operation: WakeRow, { tier, diskGiB }: FoundSize): Promise<void> {
  const { input, findings } = operation
  const { vcpus, memoryMiB } = tier ?? input.spec
  const expected = placementOf(operation)
  if (vcpus === expected.vcpus && memoryMiB === expected.memoryMiB && diskGiB === expected.diskGiB) return
  await hosts.bound(findings.hostId!, { ...expected, vcpus, memoryMiB, diskGiB }).reserve(tx)
}

/** Stores the size that a failed wake has left. Returns that of the disk; undefined if that is not known yet. */
export async function keepSize(tx: Db, { desktopId, input, findings }: WakeRow): Promise<number | undefined> {
  const { asleep } = findings
  const kept = asleep === 'deferred' ? undefined : sizeKept(input, asleep)
  if (kept && isNew(input, kept)) await takeSize(tx, desktopId, kept)
  return kept?.diskGiB
}

/** Only of what waited for a boot. */
export function shownSizes(operation: WakeRow) {
  const { tier, sizes } = operation.input
  const found = foundBy(operation)
  if (!sizes || !found) return {}
  const { next, nextDiskGiB } = sizes
  const later = nextDiskGiB !== null && nextDiskGiB > found.diskGiB ? nextDiskGiB : null
  return {
    ...(next && { tier: found.tier?.tier ?? tier, next_tier: found.tier ? null : next.tier }),
    ...(nextDiskGiB && { disk_gib: found.diskGiB, next_disk_gib: later }),
  }
}

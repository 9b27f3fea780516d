// Guarantee: what a host or an earlier release says of a desktop's size is believed only as far as somebody has requested it.
import { expect, test } from 'vitest'
import { sizeChanges, sizeFound } from './sizes.ts'
import type { DesktopRow } from './store.ts'

const tiers = {
  small: { vcpus: 1, memoryMiB: 512, diskGiB: 10 },
  default: { vcpus: 2, memoryMiB: 2_048, diskGiB: 20 },
  large: { vcpus: 4, memoryMiB: 4_096, diskGiB: 40 },
}
const spec = { ...tiers.small, imageVersion: 'mini' }
const next = { tier: 'large', vcpus: 4, memoryMiB: 4_096 } as const
const waiting = { spec, sizes: { next, nextDiskGiB: 50 } } as const

test.each([
  ['a boot into the next size', { ...tiers.large, diskGiB: 50 }, true, next, 50],
  ['a memory that was saved before', { ...tiers.small, diskGiB: 10 }, false, null, 10],
  ['a guest that an earlier boot has left', { ...tiers.large, diskGiB: 50 }, false, next, 50],
  ['a boot by an agent of release 0.1, which changes no disk', undefined, true, next, 10],
  ['a restore by one', undefined, false, null, 10],
  ['a host that claims what nobody has requested', { vcpus: 64, memoryMiB: 9_999, diskGiB: 9_999 }, false, null, 50],
  ['a host that claims a smaller disk', { ...tiers.large, diskGiB: 1 }, true, next, 10],
])('%s', (_, size, booted, tier, diskGiB) => {
  expect(sizeFound(waiting, size, { booted })).toEqual({ tier, diskGiB })
})

test('without a request no disk is larger, and what an earlier replica has accepted changes nothing', () => {
  const size = { ...tiers.small, diskGiB: 9_999 }
  const none = { spec, sizes: { next: null, nextDiskGiB: null } } as const
  expect(sizeFound(none, size, { booted: true })).toEqual({ tier: null, diskGiB: 10 })
  expect(sizeFound({ spec }, size, { booted: true })).toBeUndefined()
})

test('a desktop that has left its only host has a requested size at once, and nothing waits', () => {
  const row = { state: 'created', hostId: null, tier: 'small', diskGiB: 10, nextTier: 'large', nextDiskGiB: 50 }
  const set = sizeChanges({ tier: 'default', disk_gib: 60 }, row as DesktopRow, { tiers, maxDiskGiB: 100 })
  expect(Object.fromEntries(set.map(({ column, value }) => [column, value]))).toEqual({
    ...{ tier: 'default', vcpus: 2, memory_mib: 2_048, disk_gib: 60 },
    ...{ next_tier: null, next_vcpus: null, next_memory_mib: null, next_disk_gib: null },
  })
})

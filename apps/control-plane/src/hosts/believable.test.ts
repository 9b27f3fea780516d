// Guarantee: facts that no machine has make their host ill, and no number of theirs is too large for those who count.
import { type HostFacts, hostFacts } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { believable } from './believable.ts'

const facts = (given: Partial<HostFacts> = {}): HostFacts => ({
  agentVersion: '1',
  driver: 'libvirt',
  kvm: true,
  versions: {},
  capacity: { vcpus: 256, memoryMiB: 1_048_576, diskGiB: 16_384 },
  freeDiskGiB: 3_000,
  images: ['mini'],
  ailment: null,
  ...given,
})

test('what a large machine has is left as it is', () => {
  const large = facts({ capacity: { vcpus: 4_096, memoryMiB: 64 * 1024 * 1024, diskGiB: 4 * 1024 * 1024 } })
  expect(believable(large)).toEqual(large)
})

test('what no machine has is cut, and named in an ailment with what to do', () => {
  const { ailment, freeDiskGiB } = believable(facts({ freeDiskGiB: 3_000_000_000, ailment: 'libvirt is gone' }))
  expect(ailment).toMatch(/^it says that it has 3000000000 GiB of free disk, which no host has; .*remove the host$/)
  expect(freeDiskGiB).toBe(64 * 1024 * 1024)
})

test('whatever is said fits into the columns', () => {
  const count = fc.nat(Number.MAX_SAFE_INTEGER)
  const any = fc.record({ vcpus: count, memoryMiB: count, diskGiB: count })
  fc.assert(
    fc.property(any, count, (capacity, freeDiskGiB) => {
      const { capacity: held, freeDiskGiB: free } = believable(hostFacts.parse(facts({ capacity, freeDiskGiB })))
      for (const one of [...Object.values(held), free]) expect(one).toBeLessThan(2 ** 31)
    }),
  )
})

test('processors are held within reason like all else', () => {
  const { processors, ailment } = believable({ ...facts({}), processors: 1e12 })
  expect([processors, ailment]).toEqual([4_096, expect.stringContaining('1000000000000 processors')])
  expect(believable({ ...facts({}), processors: 96 })).toMatchObject({ processors: 96, ailment: null })
})

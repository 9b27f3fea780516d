// Guarantee: implausible facts make their host unhealthy, and none of their numbers exceeds the database's columns.
import { type HostFacts, hostFacts } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { plausibleFacts } from './plausible-facts.ts'

const facts = (given: Partial<HostFacts> = {}): HostFacts => ({
  agentVersion: '1',
  driver: 'libvirt',
  kvm: true,
  versions: {},
  capacity: { memoryMiB: 1_048_576, diskGiB: 16_384 },
  processors: 64,
  workAtOnce: 8,
  imageDigests: [],
  fetches: [],
  moveAddress: null,
  warm: { copies: 0, memoryMiB: 0, maxMiB: 0 },
  freeDiskGiB: 3_000,
  images: ['mini'],
  ailment: null,
  ...given,
})

test('the facts of a large machine are left as they are', () => {
  const large = facts({ processors: 1_024, capacity: { memoryMiB: 64 * 1024 * 1024, diskGiB: 4 * 1024 * 1024 } })
  expect(plausibleFacts(large)).toEqual(large)
})

test('an implausible number is limited, and named in an ailment with what to do', () => {
  const { ailment, freeDiskGiB } = plausibleFacts(facts({ freeDiskGiB: 3_000_000_000, ailment: 'libvirt is gone' }))
  expect(ailment).toMatch(/^it reports 3000000000 GiB of free disk, which is not plausible; .*remove the host$/)
  expect(freeDiskGiB).toBe(64 * 1024 * 1024)
})

test('whatever is reported fits into the columns', () => {
  const count = fc.nat(Number.MAX_SAFE_INTEGER)
  const any = fc.record({ memoryMiB: count, diskGiB: count })
  fc.assert(
    fc.property(any, count, (capacity, freeDiskGiB) => {
      const { capacity: held, freeDiskGiB: free } = plausibleFacts(hostFacts.parse(facts({ capacity, freeDiskGiB })))
      for (const one of [...Object.values(held), free]) expect(one).toBeLessThan(2 ** 31)
    }),
  )
})

test('the number of processors is checked, too', () => {
  const { processors, ailment } = plausibleFacts({ ...facts({}), processors: 1e12 })
  expect([processors, ailment]).toEqual([4_096, expect.stringContaining('1000000000000 processors')])
  expect(plausibleFacts({ ...facts({}), processors: 96 })).toMatchObject({ processors: 96, ailment: null })
})

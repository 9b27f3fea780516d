// Guarantee: a setting of shares means what it says, and a wrong one is told by its name.
import { expect, test } from 'vitest'
import { parseShares, usualText } from './shares.ts'

test('what is left out keeps its default, 0 is no limit, and off limits nothing', () => {
  const usual = parseShares(usualText(2), 2)
  expect(usual).toMatchObject({ cpu_weight: 200, disk_iops: 4_000, connections: 2_000 })
  expect(parseShares('iops=10, packets=0', 2)).toEqual({
    ...(usual as object),
    disk_iops: 10,
    packets_per_second: null,
  })
  expect(new Set(Object.values(parseShares('off', 2)))).toEqual(new Set([null]))
})

test.each([
  ['ipos=10', 'has "ipos", which is none of cpu, iops, disk, network, packets, connections'],
  ['100,2000', 'has "100", which is none of'],
  ['toString=1', 'has "toString"'],
  ['cpu=10001', 'cpu must be a whole number from 1 to 10000, or 0 for no limit'],
  ['disk=1.5', 'disk must be a whole number from 1 to 1000000'],
  ['iops', 'iops must be a whole number'],
  ['iops=1,iops=2', 'has iops twice'],
  ['', 'has ""'],
])('%s is refused', (text, why) => {
  expect(parseShares(text, 1)).toContain(why)
})

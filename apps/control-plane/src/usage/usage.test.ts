// Guarantee: sums match the rows exactly, and a difference between ledger and hosts is found.
import { usageQuery } from '@dormouse/contract'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { UsedMs } from '../ledger/store.ts'
import { differences } from './differences.ts'
import { totalsOf } from './totals.ts'

const ms = fc.integer({ min: 0, max: 10 ** 12 })
const row: fc.Arbitrary<UsedMs> = fc.record({
  desktopId: fc.uuid(),
  tier: fc.constantFrom('small', 'default', 'large'),
  billingMode: fc.constantFrom('monthly', 'hourly'),
  awakeMs: ms,
  hibernatedMs: ms,
})

const sum = (values: number[]) => values.reduce((total, value) => total + value, 0)

test('totals are the exact sums of the rows, one for each tier and billing mode', () => {
  fc.assert(
    fc.property(fc.array(row), (rows) => {
      const totals = totalsOf(rows)
      expect(new Set(totals.map(({ tier, billingMode }) => `${tier} ${billingMode}`)).size).toBe(totals.length)
      for (const total of totals) {
        const own = rows.filter(({ tier, billingMode }) => tier === total.tier && billingMode === total.billingMode)
        expect(total.awakeMs).toBe(sum(own.map(({ awakeMs }) => awakeMs)))
        expect(total.hibernatedMs).toBe(sum(own.map(({ hibernatedMs }) => hibernatedMs)))
      }
      expect(sum(totals.map(({ awakeMs }) => awakeMs))).toBe(sum(rows.map(({ awakeMs }) => awakeMs)))
    }),
  )
})

test('a desktop that runs uncounted and one that is counted but does not run are found; another generation is both', () => {
  const said = new Map([['h1', [{ desktopId: 'a', generation: 2 }]]])
  const booked = [{ desktopId: 'a', generation: 1, hostId: 'h1' }]
  expect(differences(said, [{ desktopId: 'a', generation: 2, hostId: 'h1' }])).toEqual([])
  expect(differences(said, booked)).toEqual([
    { what: 'unbooked', desktopId: 'a', generation: 2, hostId: 'h1' },
    { what: 'unproved', desktopId: 'a', generation: 1, hostId: 'h1' },
  ])
})

test.each([
  '1e400',
  'Infinity',
  '-Infinity',
  'NaN',
  '0x10',
  '1e3',
  '',
  ' ',
  ' 1',
  '1 ',
  '+1',
  '-0',
  '-1',
  '.5',
  '5.',
  '1_0',
  '１',
  '253402300800',
  '253402300799.5',
  '9'.repeat(500),
])('the time %j is refused with the name of its field', (text) => {
  for (const field of ['start', 'end']) {
    expect(usageQuery.safeParse({ [field]: text }).error?.issues[0]?.path).toEqual([field])
  }
})

test('whole and decimal seconds up to the end of the year 9999 are times', () => {
  expect(usageQuery.parse({ start: '0', end: '253402300799' })).toEqual({ start: 0, end: 253_402_300_799 })
  expect(usageQuery.parse({ start: '0001.25' })).toEqual({ start: 1.25 })
  expect(usageQuery.safeParse({ start: ['1', '2'] }).success).toBe(false)
})

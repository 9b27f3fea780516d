// Guarantee: a range is what RFC 9110 defines, and anything else is ignored.
import { expect, test } from 'vitest'
import { parseRange, resolveRange } from './ranges.ts'

test.each([
  ['bytes=0-0', 10, { first: 0, length: 1 }],
  ['bytes=3-', 10, { first: 3, length: 7 }],
  ['bytes=3-99', 10, { first: 3, length: 7 }],
  ['Bytes = 3 - 4 ', 10, { first: 3, length: 2 }],
  ['bytes=-4', 10, { first: 6, length: 4 }],
  ['bytes=-99', 10, { first: 0, length: 10 }],
  ['bytes=-0', 10, undefined],
  ['bytes=10-', 10, undefined],
  ['bytes=0-', 0, undefined],
  ['bytes=-5', 0, undefined],
  ['bytes=99999999999-', 10, undefined],
])('%s of %d bytes', (header, size, expected) => {
  expect(resolveRange(parseRange(header)!, size)).toEqual(expected)
})

test.each([
  undefined,
  '',
  'bytes',
  'bytes=',
  'bytes=-',
  'bytes=4-3',
  'bytes=0-1,3-4',
  'lines=0-1',
  'bytes=a-b',
  'bytes=1e3-',
])('%j is ignored', (header) => {
  expect(parseRange(header)).toBeUndefined()
})

// Guarantee: what another process sends is bounded before it is read, and every part that is valid is used.
import { expect, test } from 'vitest'
import { z } from 'zod'
import { durationMs, listOf, recordOf, said } from './bounds.ts'

test('words are cut, and hold nothing that a log or a database cannot take', () => {
  expect(said(10).parse('a\0b\n\u202ec')).toBe('a b c')
  expect(said(3).parse('long')).toBe('lon')
  expect(said(1).parse('😀')).toBe('\ufffd')
})

test('a list that is too long is refused before any of its items is read, and one with a bad item at that item', () => {
  let read = 0
  const item = z.number().refine(() => ++read)
  expect(listOf(item, 2).safeParse([1, 2, 3]).error?.issues).toMatchObject([{ message: 'must be a list of at most 2' }])
  expect(read).toBe(0)
  const { error } = listOf(z.object({ a: item }), 5).safeParse([{ a: 1 }, { a: 'x' }, { a: 'y' }])
  expect(error?.issues.map(({ path }) => path.join('.'))).toEqual(['1.a'])
  expect(listOf(item, 2).parse([1, 2])).toEqual([1, 2])
})

test('an object of too many fields is refused', () => {
  const many = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`v${at}`, '1']))
  expect(recordOf(said(5), 50).safeParse(many).success).toBe(false)
  expect(recordOf(said(5), 50).parse({ qemu: '10.0.1-long' })).toEqual({ qemu: '10.0.' })
})

test('a time that no timer can wait is the longest that one can', () => {
  expect(durationMs.parse(Number.MAX_SAFE_INTEGER)).toBe(2 ** 31 - 1)
})

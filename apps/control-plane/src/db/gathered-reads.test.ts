// Guarantee: gathered reads are each answered with their own value or error, and none is answered by a statement that was
// sent before it was asked for.
import { expect, test } from 'vitest'
import { GatheredReads } from './gathered-reads.ts'

test('what is asked for in one turn is one statement; each gets its own value, or undefined', async () => {
  const sent: number[][] = []
  const reads = new GatheredReads<number, string>(async (keys) => {
    sent.push(keys)
    return keys.map((key) => (key % 2 === 0 ? `value of ${key}` : undefined))
  })
  const values = await Promise.all([1, 2, 4, 2].map((key) => reads.find(key)))
  expect(values).toEqual([undefined, 'value of 2', 'value of 4', 'value of 2'])
  expect(sent).toEqual([[1, 2, 4, 2]])
})

test('what is asked for while a statement is in flight is part of the next one', async () => {
  const sent: number[][] = []
  const first = Promise.withResolvers<void>()
  const reads = new GatheredReads<number, number>(async (keys) => {
    sent.push(keys)
    if (sent.length === 1) await first.promise
    return keys
  })
  const early = reads.find(1)
  await new Promise(setImmediate)
  expect(sent).toEqual([[1]])
  expect(await reads.find(1)).toBe(1)
  expect(sent).toEqual([[1], [1]])
  first.resolve()
  expect(await early).toBe(1)
})

test('very many are divided', async () => {
  const sizes: number[] = []
  const reads = new GatheredReads<number, number>(async (keys) => {
    sizes.push(keys.length)
    return keys
  })
  const keys = Array.from({ length: 150 }, (_, key) => key)
  expect(await Promise.all(keys.map((key) => reads.find(key)))).toEqual(keys)
  expect(sizes).toEqual([64, 64, 22])
})

test('an error reaches everyone that the statement was for, and no one else', async () => {
  let count = 0
  const reads = new GatheredReads<number, number>(async (keys) => {
    if (count++ === 0) throw new Error('the database is unavailable')
    return keys
  })
  const failed = await Promise.allSettled([reads.find(1), reads.find(2)])
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await reads.find(3)).toBe(3)
})

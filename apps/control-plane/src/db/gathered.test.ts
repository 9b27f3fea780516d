// Guarantee: what comes together is written together, each caller gets its own result, and one bad item harms no other.
import { expect, test } from 'vitest'
import { Gathered } from './gathered.ts'

test('what comes during a write is written in one statement after it', async () => {
  const writes: number[][] = []
  const gathered = new Gathered(async (items: number[]) => {
    writes.push(items)
    return items.map((item) => item * 2)
  })
  const results = await Promise.all([1, 2, 3, 4].map((item) => gathered.add(item)))
  expect(results).toEqual([2, 4, 6, 8])
  expect(writes).toEqual([[1], [2, 3, 4]])
})

test('an item that cannot be written fails alone', async () => {
  const gathered = new Gathered(async (items: string[]) => {
    if (items.includes('bad')) throw new Error('invalid input')
    return items
  })
  const results = await Promise.allSettled(['first', 'one', 'bad', 'two'].map((item) => gathered.add(item)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'fulfilled'])
})

test('while the database is unavailable, all fail after one attempt', async () => {
  let attempts = 0
  const gathered = new Gathered(async (): Promise<never[]> => {
    attempts++
    throw new Error('Connection terminated unexpectedly')
  })
  const results = await Promise.allSettled(['first', 'one', 'two'].map((item) => gathered.add(item)))
  expect(results.every(({ status }) => status === 'rejected')).toBe(true)
  expect(attempts).toBe(2)
})

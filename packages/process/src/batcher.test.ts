// Guarantee: what comes together is done together, each caller gets its own result of a call that began after its own, and one
// bad item harms no other.
import { expect, test } from 'vitest'
import { Batcher } from './batcher.ts'

test('what comes in one turn of the event loop is one call; each gets its own result', async () => {
  const calls: number[][] = []
  const batcher = new Batcher(
    async (keys: number[]) => {
      calls.push(keys)
      return keys.map((key) => (key % 2 === 0 ? `value of ${key}` : undefined))
    },
    { most: 64 },
  )
  const values = await Promise.all([1, 2, 4, 2].map((key) => batcher.add(key)))
  expect(values).toEqual([undefined, 'value of 2', 'value of 4', 'value of 2'])
  expect(calls).toEqual([[1, 2, 4, 2]])
})

/** A batcher whose first call lasts until the test ends it. */
function slowAtFirst(pauseMs?: number) {
  const calls: number[][] = []
  const first = Promise.withResolvers<void>()
  const call = async (items: number[]) => {
    calls.push(items)
    if (calls.length === 1) await first.promise
    return items
  }
  return { batcher: new Batcher(call, { most: 64, ...(pauseMs !== undefined && { pauseMs }) }), calls, first }
}

test('what comes during a call is part of the next one, which does not wait for it', async () => {
  const { batcher, calls, first } = slowAtFirst()
  const early = batcher.add(1)
  await new Promise(setImmediate)
  expect(calls).toEqual([[1]])
  expect(await batcher.add(1)).toBe(1)
  expect(calls).toEqual([[1], [1]])
  first.resolve()
  expect(await early).toBe(1)
})

test('with a pause it waits, and calls never overlap', async () => {
  const { batcher, calls, first } = slowAtFirst(0)
  const early = batcher.add(1)
  await new Promise(setImmediate)
  const later = [2, 3].map((item) => batcher.add(item))
  for (let turns = 0; turns < 3; turns++) await new Promise(setImmediate)
  expect(calls).toEqual([[1]])
  first.resolve()
  expect(await Promise.all([early, ...later])).toEqual([1, 2, 3])
  expect(calls).toEqual([[1], [2, 3]])
})

test('very many are divided', async () => {
  const sizes: number[] = []
  const batcher = new Batcher(
    async (items: number[]) => {
      sizes.push(items.length)
      return items
    },
    { most: 64 },
  )
  const items = Array.from({ length: 150 }, (_, item) => item)
  expect(await Promise.all(items.map((item) => batcher.add(item)))).toEqual(items)
  expect(sizes).toEqual([64, 64, 22])
})

test('an item that cannot be done fails alone', async () => {
  const call = async (items: string[]) => {
    if (items.includes('bad')) throw new Error('invalid input')
    return items
  }
  const batcher = new Batcher(call, { most: 64, isShared: () => false })
  const results = await Promise.allSettled(['one', 'bad', 'two'].map((item) => batcher.add(item)))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
})

test('a shared error fails all of its call after one attempt, and no one else', async () => {
  let attempts = 0
  const call = async (items: number[]) => {
    if (attempts++ === 0) throw new Error('the database is unavailable')
    return items
  }
  const batcher = new Batcher(call, { most: 64 })
  const failed = await Promise.allSettled([batcher.add(1), batcher.add(2)])
  expect(failed.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  expect(await batcher.add(3)).toBe(3)
  expect(attempts).toBe(2)
})

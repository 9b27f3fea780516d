// Guarantee: only memory that nothing else uses is freed.
import { expect, test } from 'vitest'
import { freeMemory } from './free-memory.ts'

test('bytes that do not share their memory are freed', () => {
  const bytes = Buffer.alloc(64 * 1024, 1)
  freeMemory(bytes)
  expect(bytes.length).toBe(0)
})

test('bytes that share their memory stay, and so do the others', () => {
  const all = Buffer.alloc(64 * 1024, 1)
  const [first, second] = [all.subarray(0, 1_000), all.subarray(1_000)]
  const fromPool = Buffer.from('a few')
  for (const bytes of [first, second, fromPool]) freeMemory(bytes)
  expect([first.length, second.at(-1), fromPool.toString()]).toEqual([1_000, 1, 'a few'])
})

// Guarantee: only memory that nobody else can be looking at is given back.
import { expect, test } from 'vitest'
import { letGo } from './let-go.ts'

test('bytes that have their memory for themselves are gone', () => {
  const bytes = Buffer.alloc(64 * 1024, 1)
  letGo(bytes)
  expect(bytes.length).toBe(0)
})

test('bytes that lie beside others stay, and the others too', () => {
  const all = Buffer.alloc(64 * 1024, 1)
  const [first, second] = [all.subarray(0, 1_000), all.subarray(1_000)]
  const fromPool = Buffer.from('a few')
  for (const bytes of [first, second, fromPool]) letGo(bytes)
  expect([first.length, second.at(-1), fromPool.toString()]).toEqual([1_000, 1, 'a few'])
})

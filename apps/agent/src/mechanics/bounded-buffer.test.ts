import { execOutputMaxBytes } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Kept } from './bounded-buffer.ts'

test('the first part of a stream is kept as it came, and one byte more', () => {
  const kept = new Kept()
  for (const text of ['', 'a', 'bc', '', 'def']) kept.add(Buffer.from(text))
  expect(kept.take().toString()).toBe('abcdef')
  const long = new Kept()
  for (let i = 0; i < 3; i++) long.add(Buffer.alloc(execOutputMaxBytes / 2, 'x'))
  long.add(Buffer.from('y'))
  expect(long.take().equals(Buffer.alloc(execOutputMaxBytes + 1, 'x'))).toBe(true)
})

test('what was taken is kept no more, nor what comes after it', () => {
  const kept = new Kept()
  kept.add(Buffer.from('a'))
  kept.take()
  kept.add(Buffer.from('b'))
  expect(kept.take().length).toBe(0)
})

test('a million bytes that come one by one take the memory of a million bytes', () => {
  const [kept, byte] = [new Kept(), Buffer.from('x')]
  const before = process.memoryUsage()
  for (let i = 0; i < execOutputMaxBytes; i++) kept.add(byte)
  const after = process.memoryUsage()
  const grown = after.heapUsed + after.external - before.heapUsed - before.external
  expect(kept.take().length).toBe(execOutputMaxBytes)
  expect(grown).toBeLessThan(64 * 1024 * 1024)
})

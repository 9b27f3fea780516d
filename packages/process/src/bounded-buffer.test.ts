import { expect, test } from 'vitest'
import { BoundedBuffer } from './bounded-buffer.ts'

const maxBytes = 1024 * 1024

test('the first part of a stream is kept as it came, up to the limit', () => {
  const buffer = new BoundedBuffer(maxBytes)
  for (const text of ['', 'a', 'bc', '', 'def']) buffer.add(Buffer.from(text))
  expect(buffer.take().toString()).toBe('abcdef')
  const long = new BoundedBuffer(maxBytes + 1)
  for (let i = 0; i < 3; i++) long.add(Buffer.alloc(maxBytes / 2, 'x'))
  long.add(Buffer.from('y'))
  expect(long.take().equals(Buffer.alloc(maxBytes + 1, 'x'))).toBe(true)
})

test('what was taken is released, and what comes after it is dropped', () => {
  const buffer = new BoundedBuffer(maxBytes)
  buffer.add(Buffer.from('a'))
  buffer.take()
  buffer.add(Buffer.from('b'))
  expect(buffer.take().length).toBe(0)
})

test('a million bytes that come one by one take the memory of a million bytes', () => {
  const [buffer, byte] = [new BoundedBuffer(maxBytes), Buffer.from('x')]
  const before = process.memoryUsage()
  for (let i = 0; i < maxBytes; i++) buffer.add(byte)
  const after = process.memoryUsage()
  const grown = after.heapUsed + after.external - before.heapUsed - before.external
  expect(buffer.take().length).toBe(maxBytes)
  expect(grown).toBeLessThan(64 * 1024 * 1024)
})

// Guarantee: calls run one at a time, in their order; a shared failure also fails the calls that are queued.
import { expect, test } from 'vitest'
import { CallQueue } from './call-queue.ts'

test('calls follow each other, and one that fails does not hold up the next', async () => {
  const queue = new CallQueue()
  const seen: string[] = []
  const call = (name: string) => async () => {
    seen.push(`${name} begins`)
    await Promise.resolve()
    seen.push(`${name} ends`)
    if (name === 'b') throw new Error('b')
  }
  const all = ['a', 'b', 'c'].map((name) => queue.run(call(name), () => false))
  expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

test('a shared failure fails all queued calls, and the next call is made again', async () => {
  const queue = new CallQueue()
  let calls = 0
  const failing = async () => {
    calls++
    throw new Error('no answer')
  }
  const all = await Promise.allSettled(Array.from({ length: 20 }, () => queue.run(failing, () => true)))
  expect(all.every(({ status }) => status === 'rejected')).toBe(true)
  expect(calls).toBe(1)
  const answering = async () => 'back'
  await expect(queue.run(answering, () => true)).resolves.toBe('back')
})

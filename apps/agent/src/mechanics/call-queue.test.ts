// Guarantee: one call at a time, in the order asked; who waited behind one that found the agent mute learns it from there.
import { expect, test } from 'vitest'
import { AgentTurns } from './call-queue.ts'

test('calls follow each other, and one that fails does not hold up the next', async () => {
  const turns = new AgentTurns()
  const seen: string[] = []
  const call = (name: string) => async () => {
    seen.push(`${name} begins`)
    await Promise.resolve()
    seen.push(`${name} ends`)
    if (name === 'b') throw new Error('b')
  }
  const all = ['a', 'b', 'c'].map((name) => turns.run(call(name), () => false))
  expect((await Promise.allSettled(all)).map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'fulfilled'])
  expect(seen).toEqual(['a begins', 'a ends', 'b begins', 'b ends', 'c begins', 'c ends'])
})

test('one that finds the agent mute answers for all that waited, and the next one asks anew', async () => {
  const turns = new AgentTurns()
  let asked = 0
  const mute = async () => {
    asked++
    throw new Error('mute')
  }
  const all = await Promise.allSettled(Array.from({ length: 20 }, () => turns.run(mute, () => true)))
  expect(all.every(({ status }) => status === 'rejected')).toBe(true)
  expect(asked).toBe(1)
  await expect(
    turns.run(
      async () => 'back',
      () => true,
    ),
  ).resolves.toBe('back')
})

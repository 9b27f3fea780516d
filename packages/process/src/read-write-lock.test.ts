// Guarantee: reads run together, a write runs alone, and neither waits forever.
import { expect, test } from 'vitest'
import { ReadWriteLock } from './read-write-lock.ts'

test('a write waits for the reads before it, and the reads after it wait for the write', async () => {
  const lock = new ReadWriteLock()
  const seen: string[] = []
  const work = (name: string, until: Promise<unknown>) => async () => {
    seen.push(`${name} begins`)
    await until
    seen.push(`${name} ends`)
  }
  const [reads, write] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const all = [
    lock.read(work('first', reads.promise)),
    lock.read(work('second', reads.promise)),
    lock.write(work('write', write.promise)),
    lock.read(work('third', Promise.resolve())),
  ]
  await new Promise(setImmediate)
  expect(seen).toEqual(['first begins', 'second begins'])
  reads.resolve()
  await new Promise(setImmediate)
  expect(seen.slice(2)).toEqual(['first ends', 'second ends', 'write begins'])
  write.resolve()
  await Promise.all(all)
  expect(seen.slice(5)).toEqual(['write ends', 'third begins', 'third ends'])
})

test('work that fails holds up nothing', async () => {
  const lock = new ReadWriteLock()
  const failing = async () => {
    throw new Error('it failed')
  }
  await expect(lock.read(failing)).rejects.toThrow('it failed')
  await expect(lock.write(failing)).rejects.toThrow('it failed')
  expect(await lock.write(lockFree)).toBe('free')
  expect(await lock.read(lockFree)).toBe('free')
})

const lockFree = async () => 'free'

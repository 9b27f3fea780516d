// Guarantee: never more work at once than the limits allow, no slot is lost or given twice, shares take turns, and a wait ends with
// its signal or its limit.
import { expect, test } from 'vitest'
import { KeyedMutex, Semaphore } from './semaphore.ts'

/** Work that notes its begin, and ends when the test ends it. */
function noting() {
  const begun: string[] = []
  const ends = new Map<string, () => void>()
  const work = (name: string) => () => {
    begun.push(name)
    return new Promise<void>((resolve) => ends.set(name, resolve))
  }
  /** Ends it, and lets begin what can begin then. */
  const end = async (name: string) => {
    ends.get(name)!()
    await new Promise(setImmediate)
  }
  return { begun, work, end }
}

test('what is above the limit waits in its order, and shares take turns', async () => {
  const { begun, work, end } = noting()
  const semaphore = new Semaphore(1)
  const all = ['a1', 'a2', 'a3', 'b1'].map((name) => semaphore.run(work(name), { share: name[0]! }))
  await new Promise(setImmediate)
  expect(semaphore.counts).toEqual({ taken: 1, waiting: 3 })
  for (const name of ['a1', 'a2', 'b1', 'a3']) await end(name)
  await Promise.all(all)
  expect(begun).toEqual(['a1', 'a2', 'b1', 'a3'])
  expect(semaphore.counts).toEqual({ taken: 0, waiting: 0 })
})

test('a share at its limit waits while others still begin', async () => {
  const semaphore = new Semaphore(2, 1)
  const release = await semaphore.acquire({ share: 'one' })
  const second = semaphore.acquire({ share: 'one' })
  await semaphore.acquire({ share: 'other' })
  expect(semaphore.counts).toEqual({ taken: 2, waiting: 1 })
  expect([semaphore.waiting('one'), semaphore.waiting('other')]).toEqual([1, 0])
  release()
  // A slot is given back once.
  release()
  await second
  expect(semaphore.counts).toEqual({ taken: 2, waiting: 0 })
})

test('one that leaves in the tick in which a slot is released holds none', async () => {
  const semaphore = new Semaphore(2, 1)
  const release = await semaphore.acquire()
  const leaving = new AbortController()
  const left = semaphore.acquire({ signal: leaving.signal })
  leaving.abort(new Error('gone'))
  release()
  await expect(left).rejects.toThrow('gone')
  expect(semaphore.counts).toEqual({ taken: 0, waiting: 0 })
  await expect(semaphore.acquire({ signal: leaving.signal })).rejects.toThrow('gone')
})

test('a wait ends at its limit; work that has begun has none', async () => {
  const semaphore = new Semaphore(1)
  const limit = { ms: 1, error: () => new Error('too late') }
  const release = await semaphore.acquire({ limit })
  await expect(semaphore.acquire({ limit })).rejects.toThrow('too late')
  expect(semaphore.counts).toEqual({ taken: 1, waiting: 0 })
  release()
  expect(semaphore.counts).toEqual({ taken: 0, waiting: 0 })
})

test('work that fails gives its slot back', async () => {
  const semaphore = new Semaphore(1)
  const failing = async () => {
    throw new Error('it failed')
  }
  await expect(semaphore.run(failing)).rejects.toThrow('it failed')
  expect(await semaphore.run(async () => 'it runs')).toBe('it runs')
})

test('a keyed mutex runs one at a time per key, and keys beside each other', async () => {
  const { begun, work, end } = noting()
  const mutex = new KeyedMutex()
  const all = ['a1', 'a2', 'b1'].map((name) => mutex.run(name[0]!, work(name)))
  await new Promise(setImmediate)
  expect(begun).toEqual(['a1', 'b1'])
  for (const name of ['a1', 'a2', 'b1']) await end(name)
  await Promise.all(all)
  expect(begun).toEqual(['a1', 'b1', 'a2'])
})

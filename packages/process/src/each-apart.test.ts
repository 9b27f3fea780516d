// Guarantee: none of several things delays another, whether its work fails or does not end.
import { expect, test } from 'vitest'
import { eachApart, eachDone } from './each-apart.ts'

test('what fails is told, and all others are done', async () => {
  const [done, failed]: [number[], number[]] = [[], []]
  await eachApart([1, 2, 3, 4, 5], { atOnce: 2, failed: (_error, item) => failed.push(item) }, async (item) => {
    if (item < 4) throw new Error('no')
    done.push(item)
  })
  expect([done, failed]).toEqual([
    [4, 5],
    [1, 2, 3],
  ])
})

test('one that hangs delays none behind it, and no more than so many run at once', async () => {
  const end = Promise.withResolvers<void>()
  const done: number[] = []
  let [running, most] = [0, 0]
  const all = eachApart([1, 2, 3, 4, 5, 6], { atOnce: 3, failed: () => undefined }, async (item) => {
    most = Math.max(most, ++running)
    if (item === 1) await end.promise
    await Promise.resolve()
    running--
    done.push(item)
  })
  await expect.poll(() => done).toEqual([2, 3, 4, 5, 6])
  end.resolve()
  await all
  expect([done.at(-1), most]).toEqual([1, 3])
})

test('all are done in order, and then the first failure is told', async () => {
  const done: number[] = []
  const all = eachDone([1, 2, 3, 4], async (item) => {
    if (item % 2) throw new Error(`not ${item}`)
    done.push(item)
  })
  await expect(all).rejects.toThrow('not 1')
  expect(done).toEqual([2, 4])
})

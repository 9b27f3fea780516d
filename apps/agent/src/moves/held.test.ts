import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf } from '../testing/bench.ts'
import { TestMove } from '../testing/move.ts'

test('an agent takes only so many moves at once, and says so by a code of its own', async () => {
  const installationId = newId()
  await using home = await Bench.start({ installationId })
  await using away = await Bench.start({ installationId })
  const ids = Array.from({ length: 9 }, () => newId())
  for (const desktopId of ids) await home.awake(fenceOf(desktopId, 1, 1))
  const moves = ids.map(
    (desktopId) => new TestMove({ from: home, to: away, desktopId, kind: 'live', generation: 1, turn: 10 }),
  )
  for (const move of moves.slice(0, 8)) await move.begin()
  await expect(moves[8]!.begin()).rejects.toMatchObject({ code: 'too_many_moves' })
  expect(await moves[0]!.keep()).toBe('awake')
  await moves[8]!.begin()
  for (const move of moves.slice(1)) expect(await move.keep()).toBe('awake')
})

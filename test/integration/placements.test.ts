// Guarantee: first wakes that come all at once fill a fleet to its last place, overbook no host, and are spread evenly. With
// 1,000 on 50 hosts: `test/scale/placements.test.ts`.
import { expect, test } from 'vitest'
import { fillFleet, spreadOver } from './parts/full-fleet.ts'

test('none is refused while there is room, and one more is', async () => {
  expect((await fillFleet(3, 5)).counts).toEqual([5, 5, 5])
})

test('they are spread evenly', async () => {
  const counts = await spreadOver(3, 5)
  expect(counts.at(-1)! - counts[0]!).toBeLessThanOrEqual(2)
})

// Guarantee: 1,000 first wakes at once on 50 hosts overbook none, are refused nowhere while there is capacity, and are spread.
import { expect, test } from 'vitest'
import { fillFleet, spreadOver } from '../integration/parts/full-fleet.ts'

test('1,000 first wakes fill 50 hosts to the last place', async () => {
  const { tookMs } = await fillFleet(50, 20)
  console.info(`1,000 first wakes in ${Math.round(tookMs)} ms, ${Math.round(1_000_000 / tookMs)} a second`)
})

test('1,000 first wakes on 50 hosts with room for more are spread evenly', async () => {
  const counts = await spreadOver(50, 20)
  console.info(`a host has ${counts[0]} to ${counts.at(-1)} desktops`)
  expect(counts.at(-1)! - counts[0]!).toBeLessThanOrEqual(4)
})

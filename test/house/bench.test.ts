// Guarantee: the benchmark's floor outlives the connections that it loses, as the control plane beside it does.
import { expect, test } from 'vitest'
import { startFloor } from '../bench/get-rate.ts'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

test('the floor of the GET figures goes on when Postgres ends its sessions', async () => {
  await using house = await House.start({ hosts: 0 })
  const { id } = await house.desktop()
  const floor = await startFloor(house.database.url, id)
  const ask = async () => (await fetch(floor.url)).status
  try {
    for (let round = 0; round < 3; round++) {
      expect(await Promise.race([ask(), floor.failed])).toBe(200)
      expect(await house.database.endSessions('bench-floor')).toBeGreaterThan(0)
      await waitFor('another session', async () => (await Promise.race([ask(), floor.failed])) === 200)
    }
  } finally {
    await floor.stop()
  }
})

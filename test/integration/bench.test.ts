// Guarantee: the benchmark's floor survives lost connections, as the control plane does.
import { expect, test } from 'vitest'
import { startHttpFloor } from '../bench/floors/http-floor.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

test('the floor of the GET figures goes on when Postgres ends its sessions', async () => {
  await using stack = await Stack.start({ hosts: 1 })
  const { id } = await stack.desktop()
  const floor = await startHttpFloor(stack.database.url, stack.host.folder)
  const ask = async () => {
    const connection = floor.connect()
    const { status } = await connection.send('GET', `/desktops/${id}`)
    connection.close()
    return status
  }
  try {
    for (let round = 0; round < 3; round++) {
      expect(await ask()).toBe(200)
      expect(await stack.database.endSessions('bench-floor')).toBeGreaterThan(0)
      await waitFor('another session', async () => (await ask()) === 200)
    }
  } finally {
    await floor.stop()
  }
})

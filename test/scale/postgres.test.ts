// Guarantee: under fifteen kills of Postgres in four minutes nobody sees a 500. In short: `test/integration/postgres.test.ts`.
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { ownPostgres } from '../integration/parts/own-postgres.ts'
import { beginTraffic, countsOf } from '../integration/parts/traffic.ts'
import { Stack } from '../stack.ts'

const kills = 15
const spanMs = 240_000

test('fifteen kills of Postgres in four minutes', async () => {
  await using own = await ownPostgres()
  await using stack = await Stack.start({ databaseServer: own.postgres.url })
  stack.chronicle.foresee(/./)
  const { id: awake } = await stack.desktop('awake')
  await using traffic = beginTraffic(stack, { awake })
  for (let kill = 0; kill < kills; kill++) {
    await sleep((spanMs / kills) * (0.5 + Math.random()))
    await own.postgres.kill()
    await own.postgres.restart()
    console.log(`killed ${kill + 1} of ${kills}; ${traffic.noted.length} answers so far`)
  }
  const noted = await traffic.stop()
  const counts = countsOf(noted)
  console.table(counts)
  console.log('the slowest', noted.slice(0, 5))
  expect(Object.entries(counts).filter(([, statuses]) => 500 in statuses)).toEqual([])
})

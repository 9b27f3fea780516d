// Guarantee: a connection on which the guest greets anew is given up at once, whatever came before; one that goes on is kept.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../testing/bench.ts'
import { noPulse } from './pulse.ts'
import { keepVigil } from './ssh-vigil.ts'

async function line(): Promise<{ host: Socket; guest: Socket }> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const host = connect((server.address() as AddressInfo).port, '127.0.0.1')
  const [guest] = (await once(server, 'connection')) as [Socket]
  server.close()
  return { host, guest }
}

test.each([
  ['alone', ['\nHELLO\n']],
  ['behind half a packet', [`${'x'.repeat(100)}\nHELLO\n`]],
  ['in pieces', ['half a pack', 'et\nHE', 'L', 'LO\n']],
])('a greeting that comes %s ends the connection', async (_how, pieces) => {
  const { host, guest } = await line()
  keepVigil(host, noPulse, () => host.destroy())
  guest.setNoDelay(true)
  for (const piece of pieces) {
    guest.write(piece)
    await until(() => guest.writableLength === 0)
  }
  await until(() => host.destroyed)
  guest.destroy()
})

test('bytes that are no greeting do not', async () => {
  const { host, guest } = await line()
  let given = false
  keepVigil(host, noPulse, () => {
    given = true
  })
  guest.end('\nHELLO\n and more, \nHELL')
  await once(host, 'close')
  expect(given).toBe(false)
})

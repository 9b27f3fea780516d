// Guarantee: while its guest is paused nothing is sent over a connection, and afterwards it is used again; one with work in flight
// is closed. (With guests: test/real/agent-warm.test.ts.)
import type { Socket } from 'node:net'
import { expect, test } from 'vitest'
import { until } from '../testing/bench.ts'
import { startServer } from '../testing/ssh-server.ts'
import { discardOutput } from './channels.ts'

/** A guest that starts every command, and how often it has heard something from its host. */
async function connected() {
  const guest = await startServer(() => undefined)
  let heard = 0
  guest.server.on('connection', (client) => {
    const { _sock: socket } = client as unknown as { _sock: Socket }
    socket.on('data', () => heard++)
  })
  await guest.connection.connect()
  return { ...guest, heard: () => heard }
}

test('nothing is sent while the guest is paused, and keepalives are again once the connection is used', async () => {
  const [paused, other] = await Promise.all([connected(), connected()])
  paused.connection.rest({ idleChannels: 0 })
  const [before, others] = [paused.heard(), other.heard()]
  await until(() => other.heard() > others + 3)
  expect(paused.heard()).toBe(before)
  expect(paused.connection.isReady).toBe(false)
  await paused.connection.connect()
  expect(paused.connection.isReady).toBe(true)
  await paused.connection.openChannel('true', discardOutput)
  const used = paused.heard()
  await until(() => paused.heard() > used)
  for (const guest of [paused, other]) guest.close()
})

test('a connection that only idle channels use is kept, and one with more is closed', async () => {
  const guest = await connected()
  await guest.connection.openChannel('an idle shell', discardOutput)
  guest.connection.rest({ idleChannels: 1 })
  expect(guest.connection.isConnected).toBe(true)
  await guest.connection.openChannel('a command', discardOutput)
  guest.connection.rest({ idleChannels: 1 })
  expect(guest.connection.isConnected).toBe(false)
  guest.close()
})

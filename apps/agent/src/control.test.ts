// Guarantee: what is dialled back and breaks off ends nothing but itself. (Links: context.test.ts.)
import { createServer } from 'node:http'
import { Channel } from '@dormouse/link'
import { listenOnLoopback, openDoors } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { Control, type DialBack } from './control.ts'

test('a channel that is lost while nobody uses it is held no longer, and ends nobody', async () => {
  const server = createServer()
  const doors = openDoors(server)
  doors.add({
    path: (pathname) => pathname.startsWith('/agent/v1/channels/'),
    authenticate: () => undefined,
    onSocket: (socket) => new Channel(socket).on('error', () => undefined).destroy(new Error('cut')),
  })
  let dialBack!: DialBack
  const control = new Control({
    seeds: [`http://127.0.0.1:${await listenOnLoopback(server)}`],
    token: async () => 'token',
    handlers: (given) => {
      dialBack = given
      return {}
    },
    hello: () => Promise.reject(new Error('nobody asks')),
    heartbeat: () => Promise.reject(new Error('nobody asks')),
    log: createLog({ name: 'control', level: 'silent' }),
  })
  const channel = await dialBack('any')
  await expect.poll(() => channel.destroyed).toBe(true)
  await expect.poll(() => control.channels).toBe(0)
  await control.close()
  await doors.close()
  server.close()
})

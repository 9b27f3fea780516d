// Guarantee: what is dialled back and breaks off ends nothing but itself, and nothing of it outlives its host's links.
// (Links: context.test.ts.)
import { createServer } from 'node:http'
import { Channel } from '@dormouse/link'
import { listenOnLoopback, openDoors } from '@dormouse/link/testing'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import type { DialBack } from './commands/handler.ts'
import { Control } from './control.ts'

/** A replica that accepts channels as the test wants, and a host that has dialled it. */
async function stage(take: (channel: Channel) => void, admit: () => Promise<void> = async () => undefined) {
  const server = createServer()
  const doors = openDoors(server)
  doors.add({
    path: (pathname) => pathname.startsWith('/agent/v1/channels/'),
    authenticate: admit,
    onSocket: (socket) => take(new Channel(socket).on('error', () => undefined)),
  })
  let dialBack!: DialBack
  const control = new Control({
    seeds: [`http://127.0.0.1:${await listenOnLoopback(server)}`],
    mayDial: () => true,
    prove: async () => undefined,
    handlers: (given) => {
      dialBack = given
      return {}
    },
    hello: () => Promise.reject(new Error('nobody asks')),
    heartbeat: () => Promise.reject(new Error('nobody asks')),
    heard: () => undefined,
    log: createLog({ name: 'control', level: 'silent' }),
  })
  const dispose = async () => {
    await control.close()
    await doors.close()
    server.close()
  }
  return { control, dialBack, [Symbol.asyncDispose]: dispose }
}

test('a channel that is lost while nobody uses it is held no longer, and ends nobody', async () => {
  await using on = await stage((channel) => channel.destroy(new Error('cut')))
  const channel = await on.dialBack('any')
  await expect.poll(() => channel.destroyed).toBe(true)
  await expect.poll(() => on.control.channels).toBe(0)
})

test('a channel that opens when its host’s links have been closed is closed at once, on both sides', async () => {
  const [asked, answer] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const taken: Channel[] = []
  const admit = async () => {
    asked.resolve()
    await answer.promise
  }
  await using on = await stage((channel) => taken.push(channel), admit)
  const dialled = on.dialBack('late')
  await asked.promise
  await on.control.close()
  answer.resolve()
  const channel = await dialled
  expect(channel.destroyed).toBe(true)
  await expect.poll(() => taken.map(({ destroyed }) => destroyed)).toEqual([true])
  await expect.poll(() => on.control.channels).toBe(0)
})

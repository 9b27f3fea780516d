// Guarantee: a connection on which the guest greets anew is given up at once, whatever came before; one that goes on is kept.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { noPulse } from '../driver/guest-activity.ts'
import { until } from '../testing/bench.ts'
import { keepVigil, type Witnesses } from './watchdog.ts'

/** Nobody says anything of the guest. */
const nobody: Witnesses = { pulse: noPulse, elsewhere: async () => false, nudge: () => undefined }

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
  keepVigil(host, nobody, () => host.destroy())
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
  keepVigil(host, nobody, () => {
    given = true
  })
  guest.end('\nHELLO\n and more, \nHELL')
  await once(host, 'close')
  expect(given).toBe(false)
})

interface GivenUp {
  looks: number
  nudges: number
  silentMs: number
}

/** Watches over a server that has fallen silent, until it is given up; answers how often its guest was looked at. */
async function looksUntilGivenUp(more: Partial<Witnesses>): Promise<GivenUp> {
  const { host, guest } = await line()
  const began = performance.now()
  let [looks, nudges] = [0, 0]
  const look = async () => {
    looks++
    return more.pulse?.busy(0) ?? false
  }
  const nudge = () => {
    nudges++
    more.nudge?.()
  }
  const given = Promise.withResolvers<void>()
  const witnesses = { ...nobody, ...more, pulse: { ...noPulse, busy: look }, nudge }
  keepVigil(host, witnesses, () => {
    host.destroy()
    given.resolve()
  })
  await given.promise
  guest.destroy()
  return { looks, nudges, silentMs: performance.now() - began }
}

test('a silent server is given up at the first look where its guest idles and answers elsewhere, and later where nothing does', async () => {
  const [alone, mute] = await Promise.all([
    looksUntilGivenUp({}),
    looksUntilGivenUp({ elsewhere: () => new Promise(() => undefined) }),
  ])
  expect(await looksUntilGivenUp({ elsewhere: async () => true })).toMatchObject({ looks: 1, nudges: 1 })
  for (const { silentMs } of [alone, mute]) expect(silentMs).toBeGreaterThan(2_500)
  expect([alone.nudges, mute.nudges]).toEqual([1, 1])
})

test('a silent server whose guest is busy is waited for, though its agent answers', async () => {
  let busyLooks = 0
  const busy = async () => ++busyLooks < 4
  const { looks } = await looksUntilGivenUp({ pulse: { ...noPulse, busy }, elsewhere: async () => true })
  expect(looks).toBe(4)
})

test('one that answers when it is nudged is kept', async () => {
  const { host, guest } = await line()
  let [nudges, given] = [0, false]
  const nudge = () => {
    nudges++
    guest.write('here')
  }
  keepVigil(host, { ...nobody, elsewhere: async () => true, nudge }, () => {
    given = true
  })
  await until(() => nudges === 2)
  expect(given).toBe(false)
  host.destroy()
  guest.destroy()
})

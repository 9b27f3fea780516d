// Guarantee: a connection on which the guest greets again is closed at once, whatever came before; one that works is kept.
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, test } from 'vitest'
import { unknownActivity } from '../driver/guest-access.ts'
import { until } from '../testing/bench.ts'
import { type LifeSigns, watchConnection } from './watchdog.ts'

/** Nothing is known of the guest. */
const noSigns: LifeSigns = {
  activity: unknownActivity,
  agentAnswers: async () => false,
  nudge: () => undefined,
  isResting: () => false,
}

async function socketPair(): Promise<{ host: Socket; guest: Socket }> {
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
])('a greeting that comes %s closes the connection', async (_how, chunks) => {
  const { host, guest } = await socketPair()
  watchConnection(host, noSigns, () => host.destroy())
  guest.setNoDelay(true)
  for (const chunk of chunks) {
    guest.write(chunk)
    await until(() => guest.writableLength === 0)
  }
  await until(() => host.destroyed)
  guest.destroy()
})

test('bytes that are not a greeting do not', async () => {
  const { host, guest } = await socketPair()
  let isClosed = false
  watchConnection(host, noSigns, () => {
    isClosed = true
  })
  guest.end('\nHELLO\n and more, \nHELL')
  await once(host, 'close')
  expect(isClosed).toBe(false)
})

interface Outcome {
  checks: number
  nudges: number
  silentMs: number
}

/** Watches a silent server until its connection is closed. */
async function watchSilentServer(more: Partial<LifeSigns>): Promise<Outcome> {
  const { host, guest } = await socketPair()
  const startedAt = performance.now()
  let [checks, nudges] = [0, 0]
  const busy = async () => {
    checks++
    return more.activity?.busy(0) ?? false
  }
  const nudge = () => {
    nudges++
    more.nudge?.()
  }
  const closed = Promise.withResolvers<void>()
  const signs = { ...noSigns, ...more, activity: { ...unknownActivity, busy }, nudge }
  watchConnection(host, signs, () => {
    host.destroy()
    closed.resolve()
  })
  await closed.promise
  guest.destroy()
  return { checks, nudges, silentMs: performance.now() - startedAt }
}

test('a silent server is given up at the first check where its guest is idle and its agent answers, and later where nothing does', async () => {
  const [alone, mute] = await Promise.all([
    watchSilentServer({}),
    watchSilentServer({ agentAnswers: () => new Promise(() => undefined) }),
  ])
  expect(await watchSilentServer({ agentAnswers: async () => true })).toMatchObject({ checks: 1, nudges: 1 })
  for (const { silentMs } of [alone, mute]) expect(silentMs).toBeGreaterThan(2_500)
  expect([alone.nudges, mute.nudges]).toEqual([1, 1])
})

test('a silent server whose guest is busy is waited for, though its agent answers', async () => {
  let busyChecks = 0
  const busy = async () => ++busyChecks < 4
  const { checks } = await watchSilentServer({ activity: { ...unknownActivity, busy }, agentAnswers: async () => true })
  expect(checks).toBe(4)
})

test('a server that answers the nudge is kept', async () => {
  const { host, guest } = await socketPair()
  let [nudges, isClosed] = [0, false]
  const nudge = () => {
    nudges++
    guest.write('here')
  }
  watchConnection(host, { ...noSigns, agentAnswers: async () => true, nudge }, () => {
    isClosed = true
  })
  await until(() => nudges === 2)
  expect(isClosed).toBe(false)
  host.destroy()
  guest.destroy()
})

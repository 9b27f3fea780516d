// Guarantee: a desktop moves between two real hosts with its memory and its disk, awake and asleep; and when a step of the
// move is cut, or an agent, a libvirtd or a QEMU dies, it is whole on the old host until the decision and on the new one from
// then on.
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { waitFor } from '../wait-for.ts'
import { RelayServer } from './parts/relay-server.ts'
import { succeeds, TwoHosts } from './parts/two-hosts.ts'

const long = process.env.DORMOUSE_TEST_LONG === '1'

/** The desktop is awake at home before and after each test. */
let hosts: TwoHosts
beforeAll(async () => {
  hosts = await TwoHosts.start({ memoryMiB: long ? 64 : 8 })
})
afterAll(() => hosts?.[Symbol.asyncDispose]())

test('it moves awake with its memory and its disk, and back asleep', async () => {
  const { home, away } = hosts
  const live = hosts.move('live')
  expect(await live.check()).toBeNull()
  const took: string[] = []
  for (const step of ['begin', 'prepare', 'send', 'arrive', 'settle', 'release'] as const) {
    const started = performance.now()
    await live[step]()
    took.push(`${step} ${Math.round(performance.now() - started)}`)
  }
  console.info(`ms: ${took.join(', ')}`)
  await hosts.expectAt(hosts.away)
  await hosts.hibernate(away)
  const cold = hosts.move('cold', away, home)
  expect(await cold.check()).toBeNull()
  const started = performance.now()
  expect(await cold.whole()).toBe('hibernated')
  console.info(`moved asleep in ${Math.round(performance.now() - started)} ms`)
  await hosts.wake()
  await hosts.expectAt(hosts.home)
})

test('without a connection between the hosts it moves through a relay', async () => {
  const { home, away } = hosts
  await using server = await RelayServer.start()
  home.dialBack = server.dialBack
  away.dialBack = server.dialBack
  expect(await hosts.move('live', home, away, server.between()).whole()).toBe('awake')
  await hosts.expectAt(away)
  await waitFor(() => server.open === 0)
  if (long) await hosts.hibernate(away)
  const back = hosts.move(long ? 'cold' : 'live', away, home, server.between())
  expect(await back.whole()).toBe(long ? 'hibernated' : 'awake')
  if (long) await hosts.wake()
  await hosts.expectAt(home)
})

test('a transfer that is cut while memory is sent leaves it running where it was', () =>
  hosts.failsInMidMemory(async () => {
    // Without KVM, QEMU loses what a guest writes meanwhile (decision 64).
    expect(await hosts.home.driver.domain(hosts.id)).toMatchObject({ state: 'paused' })
    hosts.away.parts.listener.close()
  }))

test.runIf(long)('a transfer that falls silent is given up', async () => {
  const normal = { beatMs: 1_000, silentMs: 60_000, stallMs: 60_000 }
  // The other side's beats are too rare for this one.
  hosts.home.moves = { ...hosts.home.moves, times: { ...normal, silentMs: 4_000 } }
  hosts.away.moves = { ...hosts.away.moves, times: { ...normal, beatMs: 600_000 } }
  await hosts.away.crash()
  await hosts.failsInMidMemory(() => undefined)
  hosts.home.moves = { ...hosts.home.moves, times: normal }
  hosts.away.moves = { ...hosts.away.moves, times: normal }
  await Promise.all([hosts.home.crash(), hosts.away.crash()])
})

const steps = ['begin', 'prepare', 'send', 'arrive'] as const
const deaths = [
  ['old', 'begin'],
  ['new', 'prepare'],
  ['old', 'send'],
  ['new', 'send'],
  ['old', 'arrive'],
  ['new', 'arrive'],
] as const

test.runIf(long).each(deaths)(
  'an agent of the %s host that dies after "%s" leaves what goes back and runs on',
  async (host, last) => {
    const move = hosts.move('live')
    for (const step of steps.slice(0, steps.indexOf(last) + 1)) await move[step]()
    await (host === 'old' ? hosts.home : hosts.away).crash()
    expect(await move.back()).toBe('awake')
    await hosts.expectAt(hosts.home)
  },
)

test.runIf(long)('both agents die right before the decision, and it goes on there', async () => {
  const move = hosts.move('live')
  await move.across()
  await Promise.all([hosts.home.crash(), hosts.away.crash()])
  expect(await move.settle()).toBe('awake')
  await move.release()
  await hosts.expectAt(hosts.away)
  await hosts.move('live', hosts.away, hosts.home).whole()
  await hosts.expectAt(hosts.home)
})

test.runIf(long)('a host without the key gets nothing', async () => {
  const move = hosts.move('live')
  await move.begin()
  await move.prepare()
  await expect(move.send(randomBytes(32).toString('base64url'))).rejects.toMatchObject({ code: 'hypervisor_failed' })
  expect(await move.back()).toBe('awake')
  await hosts.expectAt(hosts.home)
})

test.runIf(long)('a libvirtd of the old host that dies while memory is sent leaves it running there', () =>
  hosts.failsInMidMemory(() => hosts.killLibvirtd(0)),
)

test.runIf(long)('a libvirtd of the new host that dies while memory is sent leaves it running where it was', () =>
  hosts.failsInMidMemory(() => hosts.killLibvirtd(1)),
)

test.runIf(long)('both libvirtds die right before the decision, and it goes on there', async () => {
  const move = hosts.move('live')
  await move.across()
  for (const host of [0, 1] as const) await hosts.killLibvirtd(host)
  await waitFor(() => succeeds(Promise.all([hosts.home.driver.domains(), hosts.away.driver.domains()])), 60_000)
  expect(await move.settle()).toBe('awake')
  await move.release()
  await hosts.expectAt(hosts.away)
  await hosts.move('live', hosts.away, hosts.home).whole()
  await hosts.expectAt(hosts.home)
})

test.runIf(long)('a QEMU of the new host that dies while memory is sent leaves it running where it was', () =>
  hosts.failsInMidMemory(() => hosts.signalQemu(1, 'KILL')),
)

test('in the end its file system has no fault', () => hosts.end())

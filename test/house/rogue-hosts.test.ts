// Guarantee: whatever one host says, it costs that host alone. The others' desktops wake, the leader leads, and the operator
// is told by name.
import { once } from 'node:events'
import type { Peer } from '@dormouse/link'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { House } from '../house.ts'
import { RogueHost } from './rogue-host.ts'
import { until } from './until.ts'

async function rogueOf(house: House, name = 'rogue'): Promise<RogueHost> {
  const { token } = await house.replica.parts.hosts.invite(name)
  house.secrets.learn(`the invitation of ${name}`, token)
  return RogueHost.enrol(house.url, token, name)
}

/** Why a link was closed by the other side; it comes at once or never. */
const closing = async (peer: Peer): Promise<string> =>
  String((await once(peer, 'close', { signal: AbortSignal.timeout(20_000) }))[0])

describe('what is said on a link', () => {
  let house: House
  let rogue: RogueHost
  beforeAll(async () => {
    house = await House.start()
    rogue = await rogueOf(house)
  })
  afterAll(async () => {
    await rogue[Symbol.asyncDispose]()
    await house[Symbol.asyncDispose]()
  })

  test('a call whose name is 4 MiB ends its link, and nothing else', async () => {
    const peer = await rogue.linked()
    const asked = peer.call('A'.repeat(4 * 1024 * 1024 - 100), undefined).catch((error) => error)
    expect(await closing(peer)).toContain('no valid "name"')
    expect(await asked).toMatchObject({ name: 'LinkLost' })
    expect((await house.api('GET', '/healthz', { key: null })).status).toBe(200)
    expect(house.replica.parts.links.has(house.host.id)).toBe(true)
  })

  test('a link begins with one hello', async () => {
    const peer = await rogue.link()
    const beat = { facts: (rogue.hello() as { facts: object }).facts, running: [] }
    await expect(peer.call('host.heartbeat', beat)).rejects.toMatchObject({ detail: 'a link begins with a hello' })
    await peer.call('host.hello', rogue.hello())
    await expect(peer.call('host.hello', rogue.hello())).rejects.toMatchObject({ code: 'conflict' })
    expect(await peer.call('host.heartbeat', beat)).toMatchObject({ leaseRenewed: true })
  })

  test('one heartbeat is heard at a time', async () => {
    const peer = await rogue.linked()
    const beat = { facts: (rogue.hello() as { facts: object }).facts, running: [] }
    const answers = await Promise.allSettled([1, 2, 3].map(() => peer.call('host.heartbeat', beat)))
    expect(answers.map(({ status }) => status)).toEqual(['fulfilled', 'rejected', 'rejected'])
  })

  test('a host has one link that arrives: a newer one ends it', async () => {
    const first = await rogue.link()
    const gone = closing(first)
    const second = await rogue.link()
    expect(await gone).toBe('replaced by a newer link')
    expect(second.closed).toBe(false)
  })

  test.each([
    ['a list without end', { inventory: Array(20_001).fill(0) }, 'inventory: must be a list of at most 20000'],
    ['an item that is none', { inventory: [{ desktopId: 'x' }] }, 'inventory.0.desktopId: must be a UUID'],
    ['no facts', { facts: null }, 'facts: '],
  ])('a hello with %s is refused in a sentence that names the field', async (_what, more, words) => {
    const peer = await rogue.link()
    const refused = { code: 'invalid_request', detail: expect.stringContaining(words) }
    await expect(peer.call('host.hello', { ...rogue.hello(), ...more })).rejects.toMatchObject(refused)
  })

  test('nonsense is told to the operator a few times, however often it is said', async () => {
    const peer = await rogue.linked()
    const before = house.chronicle.find(/report was not understood/).length
    const names = ['constructor', '__proto__', 'nonsense', 'desktop.observed']
    for (let said = 0; said < 1_000; said++) peer.emitEvent(names[said % names.length]!, { nothing: said })
    const told = () => house.chronicle.find(/report was not understood/).slice(before)
    await until('the thousandth', () => told().some(({ count }) => count === 1_000))
    expect(told().map(({ count }) => count)).toEqual([1, 10, 100, 1_000])
  })
})

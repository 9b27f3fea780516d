// Guarantee: whatever one host says, it costs that host alone. The others' desktops wake, the leader leads, and the operator
// is told by name.
import { once } from 'node:events'
import { messageOf, newId } from '@dormouse/contract'
import { CallRefused, type Peer } from '@dormouse/link'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { modestFacts, RogueHost } from './parts/rogue-host.ts'

async function rogueOf(stack: Stack, name = 'rogue'): Promise<RogueHost> {
  const { token } = await stack.replica.parts.hosts.invite(name)
  stack.secrets.learn(`the invitation of ${name}`, token)
  return RogueHost.enrol(stack.url, token, name)
}

/** Why a link was closed by the other side; it comes at once or never. */
const closing = async (peer: Peer): Promise<string> =>
  String((await once(peer, 'close', { signal: AbortSignal.timeout(20_000) }))[0])

describe('what is said on a link', () => {
  let stack: Stack
  let rogue: RogueHost
  beforeAll(async () => {
    stack = await Stack.start()
    rogue = await rogueOf(stack)
  })
  afterAll(async () => {
    await rogue[Symbol.asyncDispose]()
    await stack[Symbol.asyncDispose]()
  })

  test('a call whose name is 4 MiB ends its link, and nothing else', async () => {
    const peer = await rogue.linked()
    const asked = peer.call('A'.repeat(4 * 1024 * 1024 - 100), undefined).catch((error) => error)
    expect(await closing(peer)).toContain('no valid "name"')
    expect(await asked).toMatchObject({ name: 'LinkLost' })
    expect((await stack.api('GET', '/healthz', { key: null })).status).toBe(200)
    expect(stack.replica.parts.links.has(stack.host.id)).toBe(true)
  })

  test('a link begins with one hello', async () => {
    const peer = await rogue.link()
    const beat = { facts: (rogue.hello() as { facts: object }).facts, running: [], activity: [] }
    await expect(peer.call('host.heartbeat', beat)).rejects.toMatchObject({ detail: 'a link must begin with a hello' })
    await peer.call('host.hello', rogue.hello())
    await expect(peer.call('host.hello', rogue.hello())).rejects.toMatchObject({ code: 'conflict' })
    expect(await peer.call('host.heartbeat', beat)).toMatchObject({ replicas: expect.any(Array) })
  })

  test('one heartbeat is heard at a time', async () => {
    const peer = await rogue.linked()
    const beat = { facts: (rogue.hello() as { facts: object }).facts, running: [], activity: [] }
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

  test('what takes more than its share of the thread is read more slowly, also on the next link, and its host is named', async () => {
    const told = () => stack.chronicle.find(/more than its share/).filter(({ host }) => host === rogue.id)
    const costly = Array(1_500_000).fill(0)
    /** What it owes is owed on the next link, too, before it says anything there. A slow machine forgives it meanwhile. */
    const nextIsSlowed = async () => {
      const before = told().length
      const peer = await rogue.linked()
      for (let said = 0; said < 5; said++) peer.emitEvent('desktop.observed', costly)
      await waitFor('the first link to be slowed', () => told().length > before)
      const slowed = told().length
      await rogue.link()
      return waitFor(() => told().length > slowed, 1_000).catch(() => false)
    }
    await waitFor('the next link to be slowed', nextIsSlowed)
  })

  test('nonsense is told to the operator a few times, however often it is said', async () => {
    const peer = await rogue.linked()
    const before = stack.chronicle.find(/a report of a host was invalid/).length
    const names = ['constructor', '__proto__', 'nonsense', 'desktop.observed']
    for (let said = 0; said < 1_000; said++) peer.emitEvent(names[said % names.length]!, { nothing: said })
    const told = () => stack.chronicle.find(/a report of a host was invalid/).slice(before)
    await waitFor('the thousandth', () => told().some(({ count }) => count === 1_000))
    expect(told().map(({ count }) => count)).toEqual([1, 10, 100, 1_000])
  })
})

describe('what a host reports of itself', () => {
  const absurd = { freeDiskGiB: 3_000_000_000, images: ['mini'] }

  test('one that says it has everything is given nothing, is named, and stands in nobody’s way', async () => {
    await using stack = await Stack.start()
    stack.chronicle.foresee(/reports implausible facts/)
    await using rogue = await rogueOf(stack)
    await rogue.linked({ facts: absurd })
    const { id } = await stack.desktop('awake')
    expect((await stack.see(id)).host_id).toBe(stack.host.id)
    const listed = (await stack.replica.parts.hosts.list()).find((host) => host.id === rogue.id)
    expect(listed?.ailment).toContain('3000000000 GiB of free disk, which is not plausible')
    expect(stack.chronicle.find(/reports implausible facts/)).toMatchObject([{ host: rogue.id, alarm: true }])
  })
})

describe('one host’s word about the epoch', () => {
  let stack: Stack
  let rogue: RogueHost
  const epoch = async () => Number((await stack.database.rows('select epoch from leadership'))[0]!.epoch)
  const listed = async () => (await stack.replica.parts.hosts.list()).find(({ id }) => id === rogue.id)
  const withheld = /its commands are withheld until an operator trusts it/

  /** Links anew, says that epoch, and waits until the leader has judged it. */
  const claim = async (highestEpoch: number): Promise<void> => {
    await stack.replica.leading()
    await rogue.linked({ hello: { highestEpoch } })
    await stack.replica.parts.recovery.compare(rogue.id)
  }
  /** The same, if it is believed: a later term begins. */
  const claimBelieved = async (highestEpoch: number): Promise<void> => {
    await claim(highestEpoch)
    await waitFor('a later term', () => (stack.replica.parts.leadership.term?.epoch ?? 0) > highestEpoch)
  }

  beforeAll(async () => {
    stack = await Stack.start()
    stack.chronicle.foresee(withheld, /was the database restored from a backup/)
  })
  beforeEach(async () => {
    rogue = await rogueOf(stack, `rogue-${newId()}`)
  })
  afterEach(() => rogue[Symbol.asyncDispose]())
  afterAll(() => stack[Symbol.asyncDispose]())

  test('raises it once, whoever led in between; after that this host alone gets no commands', async () => {
    await claimBelieved((await epoch()) + 5)
    await stack.restartControlPlane()
    const now = await epoch()
    for (let times = 0; times < 5; times++) await claim(now + 1)
    expect(await epoch()).toBe(now)
    expect(stack.chronicle.find(withheld).filter(({ host }) => host === rogue.id)).toHaveLength(1)
    expect((await listed())?.withheld).toMatchObject({ epoch: now + 1 })
    const asked = stack.replica.parts.links.command(rogue.id, 'host.inventory', { known: [] })
    await expect(asked).rejects.toMatchObject({ code: 'host_unreachable' })
    expect((await stack.desktop('awake')).host_id).toBe(stack.host.id)
  })

  test('counts once more when an operator trusts it, by name, and the audit log has it', async () => {
    const operator = await stack.replica.parts.principals.createOperatorKey('ops')
    const trust = (host: string) =>
      stack.api('POST', `/admin/v1/hosts/${encodeURIComponent(host)}/trust`, { key: operator })
    await claimBelieved((await epoch()) + 1)
    const claimed = (await epoch()) + 7
    await claim(claimed)
    const { name } = (await listed())!
    const answer = await trust(name)
    expect([answer.status, answer.json]).toMatchObject([200, { id: rogue.id, withheld: null, was_withheld: true }])
    await waitFor('a later term', () => (stack.replica.parts.leadership.term?.epoch ?? 0) > claimed)
    const entries = await stack.database.rows(`select action, details from audit_log where subject = $1`, [rogue.id])
    expect(entries).toEqual([{ action: 'host.trust', details: { name, epoch: claimed } }])
    await claim((await epoch()) + 1)
    expect((await listed())?.withheld).not.toBeNull()
    expect((await trust('nobody')).status).toBe(404)
    expect((await stack.api('POST', `/admin/v1/hosts/${rogue.id}/trust`)).status).toBe(403)
  })

  test('is no matter any more once the epochs have come up to it', async () => {
    await claimBelieved((await epoch()) + 1)
    await claim((await epoch()) + 1)
    expect((await listed())?.withheld).not.toBeNull()
    await stack.endTerm()
    await waitFor('commands again', async () => {
      await stack.replica.parts.recovery.compare(rogue.id)
      return (await listed())?.withheld === null
    })
    expect(await stack.replica.parts.links.command(rogue.id, 'host.inventory', { known: [] })).toMatchObject({
      items: [],
    })
  })

  test('that no history explains is never believed, also when an operator trusts it', async () => {
    const operator = await stack.replica.parts.principals.createOperatorKey('ops')
    const before = await epoch()
    await claim(2 ** 40)
    expect(await epoch()).toBe(before)
    expect(stack.chronicle.find(withheld).filter(({ host }) => host === rogue.id)).toMatchObject([{ alarm: true }])
    const { status, json } = await stack.api('POST', `/admin/v1/hosts/${rogue.id}/trust`, { key: operator })
    expect([status, json.detail]).toEqual([409, expect.stringContaining('enrol it again')])
  })
})

describe('what a host says of desktops', () => {
  let stack: Stack
  let rogue: RogueHost
  beforeAll(async () => {
    stack = await Stack.start()
    stack.chronicle.foresee(/no record in the database/, /more alarms were raised/, /later turn than the database/)
    rogue = await rogueOf(stack)
  })
  afterAll(async () => {
    await rogue[Symbol.asyncDispose]()
    await stack[Symbol.asyncDispose]()
  })

  const observation = (desktopId: string, more: object = {}) => ({
    desktopId,
    generation: 1,
    turn: 1,
    operationId: null,
    domain: 'absent',
    memory: 'none',
    disk: true,
    reason: null,
    ...more,
  })

  /** A desktop that is the rogue's, as the database has it. */
  async function own(): Promise<string> {
    const { id } = await stack.desktop()
    await stack.database.rows('update desktops set host_id = $2 where id = $1', [id, rogue.id])
    return id
  }

  test('is asked again, and only of its own: others’ are neither looked at nor locked', async () => {
    const looked: string[] = []
    const look = Promise.withResolvers<void>()
    const observe = async (wish: unknown) => {
      const { desktopId } = wish as { desktopId: string }
      looked.push(desktopId)
      look.resolve()
      return { ...observation(desktopId), calls: 0 }
    }
    const peer = await rogue.linked({ handlers: { 'desktop.observe': observe } })
    const [foreign, mine] = [(await stack.desktop('awake')).id, await own()]
    for (let said = 0; said < 500; said++) peer.emitEvent('desktop.observed', observation(said % 2 ? foreign : newId()))
    peer.emitEvent('desktop.observed', observation(mine))
    await look.promise
    expect(looked).toEqual([mine])
    expect((await stack.see(foreign)).state).toBe('awake')
  })

  test('is looked at once for all that is said meanwhile', async () => {
    const asked: (() => void)[] = []
    const observe = (wish: unknown) => {
      const { promise, resolve } = Promise.withResolvers<object>()
      asked.push(() => resolve({ ...observation((wish as { desktopId: string }).desktopId), calls: 0 }))
      return promise
    }
    const peer = await rogue.linked({ handlers: { 'desktop.observe': observe } })
    const mine = await own()
    const say = () => peer.emitEvent('desktop.observed', observation(mine))
    say()
    await waitFor('the first look', () => asked.length === 1)
    for (let said = 0; said < 1_000; said++) say()
    // What comes after these is answered when all of them were heard.
    await peer.call('host.heartbeat', { facts: modestFacts, running: [], activity: [] })
    asked[0]!()
    await waitFor('the second look', () => asked.length === 2)
    asked[1]!()
    await stack.replica.parts.recovery.compare(rogue.id)
    await peer.call('host.heartbeat', { facts: modestFacts, running: [], activity: [] })
    expect(asked).toHaveLength(2)
  })

  test('moves no desktop of another host, waits for no lock of one, and is told in a bounded number of alarms', async () => {
    const { id } = await stack.desktop('awake')
    const strangers = Array.from({ length: 100 }, () => observation(newId(), { domain: 'running' }))
    const items = [...strangers, observation(id, { generation: 999 }), observation(id, { domain: 'absent' })]
    const orders: object[] = []
    const rejoin = async (wish: unknown) => {
      orders.push(...(wish as { orders: object[] }).orders)
      return { items: [] }
    }
    await using holder = await stack.replica.parts.pool.connect().then((client) => ({
      client,
      [Symbol.asyncDispose]: async () => {
        await client.query('rollback')
        client.release()
      },
    }))
    await holder.client.query('begin')
    await holder.client.query('select 1 from desktops where id = $1 for update', [id])
    const before = stack.chronicle.find(/no record in the database/).length
    await rogue.linked({ handlers: { 'host.inventory': async () => ({ items, digests: [] }), 'host.rejoin': rejoin } })
    await waitFor('the orders', () => orders.length > 0)
    expect(orders).toHaveLength(101)
    expect(stack.chronicle.find(/no record in the database/).length - before).toBe(20)
    expect(stack.chronicle.find(/more alarms were raised/)).toMatchObject([{ host: rogue.id, left: 80 }])
    expect((await stack.see(id)).state).toBe('awake')
  })

  test('proves no life of another host’s desktop, and raises no alarm about it', async () => {
    const { id, generation } = await stack.desktop('awake')
    const peer = await rogue.linked()
    const running = [
      { desktopId: id, generation },
      { desktopId: newId(), generation: 1 },
    ]
    await peer.call('host.heartbeat', { facts: modestFacts, running, activity: [] })
    const unproved = `select 1 from usage_intervals where kind = 'awake' and upper_inf(period) and alive_until = lower(period)`
    await waitFor('the true host’s word', async () => (await stack.database.rows(unproved)).length === 0)
    const { usage } = stack.replica.parts
    await usage.compare()
    await usage.compare()
    expect(stack.chronicle.find(/the ledger does not count/)).toEqual([])
  })
})

describe('what a host answers', () => {
  let stack: Stack
  let rogue: RogueHost
  let id: string
  let exec: () => Promise<unknown>
  let awake: () => Promise<unknown>
  let beat: () => Promise<unknown>

  beforeAll(async () => {
    stack = await Stack.start({ hosts: 0 })
    // Its refusals are a reason to avoid it.
    stack.chronicle.foresee(/it is quarantined/)
    rogue = await rogueOf(stack)
    const facts = { capacity: { memoryMiB: 8_192, diskGiB: 500 }, processors: 8, freeDiskGiB: 500, images: ['mini'] }
    const handlers = {
      'desktop.ensureDisk': async () => ({ made: true }),
      'desktop.ensureAwake': () => awake(),
      'desktop.ensureAsleep': async () => ({ state: 'absent', memoryLost: false }),
      'desktop.ensureDestroyed': async () => ({}),
      'guest.call': () => exec(),
    }
    const peer = await rogue.linked({ facts, handlers })
    beat = () => peer.call('host.heartbeat', { facts: { ...modestFacts, ...facts }, running: [], activity: [] })
    awake = async () => ({ resumedFrom: 'disk', ready: true })
    id = (await stack.desktop('awake')).id
  })
  // It has no agent that would send heartbeats.
  beforeEach(() => beat())
  afterAll(async () => {
    await rogue[Symbol.asyncDispose]()
    await stack[Symbol.asyncDispose]()
  })

  test('that cannot be read is none: 503', async () => {
    exec = async () => ({ exit_code: 'zero' })
    const { status, json } = await stack.exec(id, 'true')
    expect([status, json.code]).toEqual([503, 'host_unreachable'])
    expect(stack.chronicle.find(/the answer of a host was invalid/)).toMatchObject([{ host: rogue.id }])
  })

  test('of a bug of its own is no bug of ours: 503', async () => {
    exec = () => Promise.reject(new Error('a bug of the agent'))
    const { status, json } = await stack.exec(id, 'true')
    expect([status, json.code]).toEqual([503, 'guest_unavailable'])
  })

  test('in words that no database takes ends its operation all the same', async () => {
    // If it is truncated, then in the middle of a character.
    awake = () => Promise.reject(new CallRefused('hypervisor_failed', `${'x'.repeat(999)}\u{1f600} and more`))
    const desktop = await stack.desktop()
    const { json } = await stack.api('POST', `/v1/desktops/${desktop.id}/wake?wait=true`)
    expect(json.code).toBe('operation_failed')
    expect((await stack.causes(desktop.id))[0]).toContain('xxx')
  })

  test.each(['not_leader', 'unauthenticated', 'A'.repeat(100)])('of %s is not for it to say', async (code) => {
    awake = () => Promise.reject(new CallRefused(code, 'so there'))
    const desktop = await stack.desktop()
    const { status, json } = await stack.api('POST', `/v1/desktops/${desktop.id}/wake?wait=true`)
    expect([status, json.code]).toEqual([409, 'operation_failed'])
    expect((await stack.operation(json.operation_id)).error).toBe(messageOf('hypervisor_failed', 'nothing was lost'))
    expect((await stack.causes(desktop.id))[0]).toContain('an unknown code')
  })
})

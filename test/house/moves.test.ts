// Guarantee: a desktop that moves is whole in exactly one place, and the database says where: on its old host until the move is
// decided, on its new one from then on. Whatever fails, its owner's memory and disk are there, and its ledger has no gap.
import { FailpointError } from '@dormouse/process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'
import { before, beginMove, behind, desktopIn, expectWholeOn, kinds, moved, movingAgent, other } from './parts/moved.ts'
import { RfbClient } from './parts/rfb-client.ts'

/** The interval on the new host begins at the moment at which the one on the old host ends. */
async function expectLedger(house: House, id: string, from: Host, to: Host): Promise<void> {
  const rows = await house.database.rows<{ host: string; gap: boolean | null; open: boolean }>(
    `select host_id as host, upper_inf(period) as open,
       lower(period) <> lag(upper(period)) over (order by lower(period)) as gap
     from usage_intervals where desktop_id = $1 order by lower(period)`,
    [id],
  )
  expect(rows.at(-1)!.gap).toBe(false)
  expect(rows.slice(-2).map(({ host, open }) => [host, open])).toEqual([
    [from.id, false],
    [to.id, true],
  ])
}

describe.each(kinds)('a desktop that is %s', (state) => {
  let house: House
  beforeAll(async () => {
    house = await House.start({ hosts: 2, agent: movingAgent })
  })
  afterAll(() => house[Symbol.asyncDispose]())

  test('moves, keeps its state and generation, and leaves nothing behind', async () => {
    const id = await desktopIn(house, state)
    const [desktop, from] = [await house.see(id), await house.hostOf(id)]
    const to = other(house, from)
    const operation = await moved(house, id)
    expect(operation).toMatchObject({
      kind: 'move',
      requested_by: 'operator',
      state: 'succeeded',
      result: { desktop_state: state, generation: desktop.generation, host_id: to.id, cleanup: 'done' },
    })
    expect((await house.see(id)).generation).toBe(desktop.generation)
    if (state !== 'stopped') await expectLedger(house, id, from, to)
    await expectWholeOn(house, to, id, state)
  })

  // What sleeps without memory takes the way of what sleeps with it.
  test.each(state === 'stopped' ? before.slice(-1) : before)(
    'stays where it was when its move fails after "%s"',
    async (step) => {
      const id = await desktopIn(house, state)
      const from = await house.hostOf(id)
      house.failingAt('move', step)
      expect((await moved(house, id)).state).toBe('failed')
      house.failpoints.set(`move.${step}.after`, undefined)
      await expectWholeOn(house, from, id, state)
    },
  )

  test.each(state === 'stopped' ? behind.slice(0, 1) : behind)(
    'has moved even when its move fails after "%s"',
    async (step) => {
      const id = await desktopIn(house, state)
      const to = other(house, await house.hostOf(id))
      house.failingAt('move', step)
      await moved(house, id)
      house.failpoints.set(`move.${step}.after`, undefined)
      await house.replica.parts.recovery.sendDeferred()
      await expectWholeOn(house, to, id, state)
    },
  )

  test.runIf(state !== 'stopped')('moves although each step runs twice, on a later leader', async () => {
    const id = await desktopIn(house, state)
    const to = other(house, await house.hostOf(id))
    house.repeating('move', ['place', 'begin', 'arrive', 'decide', 'settle', 'release'])
    expect((await moved(house, id)).state).toBe('succeeded')
    await expectWholeOn(house, to, id, state)
  })
})

test('no host that is cordoned, full or named by nobody takes it; it stays as it was', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'hibernated')
  const from = await house.hostOf(id)
  await house.database.rows('update hosts set cordoned_at = now() where id = $1', [other(house, from).id])
  expect(await moved(house, id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect((await house.causes(id))[0]).toContain('is cordoned')
  await expectWholeOn(house, from, id, 'hibernated')
})

test.each(['awake', 'hibernated'] as const)(
  'what was %s is lost with its old host, and the new one keeps no part of it',
  async (state) => {
    await using house = await House.start({ hosts: 2, agent: movingAgent })
    const id = await desktopIn(house, state)
    const from = await house.hostOf(id)
    const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    using _ = { [Symbol.dispose]: go.resolve }
    house.failpoints.set('move.arrive.after', () => {
      reached.resolve()
      return go.promise
    })
    const { id: move } = await beginMove(house, id)
    await reached.promise
    await house.replica.parts.removals.remove(from.id, 1, async () => undefined)
    expect(await house.settled(move)).toMatchObject({ state: 'failed', error_code: 'host_removed' })
    await house.replica.parts.recovery.sendDeferred()
    await house.shows(id, 'nothing', other(house, from))
    expect(await house.database.rows('select 1 from arrivals')).toEqual([])
    expect((await house.see(id)).state).toBe('failed')
  },
)

test('a new host that is removed before the decision gets nothing; the desktop stays as it was', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'hibernated')
  const from = await house.hostOf(id)
  house.failpoints.set('move.decide.before', async () => {
    await house.replica.parts.removals.remove(other(house, from).id, 0, async () => undefined)
  })
  const { id: move } = await beginMove(house, id)
  expect(await house.settled(move)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect(await house.see(id)).toMatchObject({ state: 'hibernated', host_id: from.id })
  await house.ask(id, 'wake')
  expect(await house.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a screen ends with 4006, and its page is back by its ticket and keeps the claim', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'awake')
  const { websocket_url: url } = (await house.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'control' } }))
    .json
  const page = await RfbClient.connect(url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  expect((await moved(house, id)).state).toBe('succeeded')
  expect((await page.closed).code).toBe(4006)
  const back = await RfbClient.connect(url.replace(/[^/]+$/, ticket), { page: true })
  await back.frame()
  back.close()
})

describe('an agent that dies', () => {
  let house: House
  beforeAll(async () => {
    house = await House.start({ hosts: 2, agent: movingAgent })
  })
  afterAll(() => house[Symbol.asyncDispose]())

  const deaths = [...before, ...behind].flatMap((step) =>
    (['old', 'new'] as const).map((side) => [side, step] as const),
  )
  test.each(deaths)('on the %s host after "%s" leaves the desktop whole in one place', async (side, step) => {
    const id = await desktopIn(house, 'awake')
    const from = await house.hostOf(id)
    const victim = house.hosts.indexOf(side === 'old' ? from : other(house, from))
    let back: Promise<void> | undefined
    house.failpoints.set(`move.${step}.after`, async () => {
      house.failpoints.set(`move.${step}.after`, undefined)
      await house.killAgent(victim)
      back = house.restartAgent(victim)
    })
    const { state } = await moved(house, id)
    await back
    await house.replica.parts.recovery.sendDeferred()
    await expectWholeOn(house, state === 'succeeded' ? other(house, from) : from, id, 'awake')
    await house.ask(id, 'destroy')
  })
})

test('an operator moves a desktop by its host’s name, once, and not to where it is', async () => {
  await using house = await House.start({ hosts: 3, agent: movingAgent })
  const key = await house.replica.parts.principals.createOperatorKey('ops')
  const id = await desktopIn(house, 'awake')
  const from = await house.hostOf(id)
  const to = house.hosts.findLast((host) => host !== from)!
  const post = (body: object, wait = '') => house.api('POST', `/admin/v1/desktops/${id}/move${wait}`, { key, body })
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = { [Symbol.dispose]: go.resolve }
  house.failpoints.set('move.send.before', () => {
    reached.resolve()
    return go.promise
  })
  const begun = await post({ to: to.name })
  expect([begun.status, begun.json]).toEqual([202, expect.objectContaining({ kind: 'move', requested_by: 'operator' })])
  await reached.promise
  expect((await post({ to: to.id })).json.id).toBe(begun.json.id)
  expect((await post({})).json.code).toBe('conflict')
  go.resolve()
  expect((await house.settled(begun.json.id)).result).toMatchObject({ host_id: to.id, desktop_state: 'awake' })
  expect((await post({ to: to.name })).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await post({ to: 'nowhere' })).status).toBe(404)
  expect((await post({ to: from.name }, '?wait=true')).json).toMatchObject({ state: 'succeeded' })
  expect((await house.api('POST', `/admin/v1/desktops/${id}/move`, { body: {} })).status).toBe(403)
})

test('a desktop whose new host cannot be asked to run it is named in an alarm, and runs when the host is back', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  house.chronicle.foresee(/may be paused since its move/)
  const id = await desktopIn(house, 'awake')
  const to = other(house, await house.hostOf(id))
  house.failpoints.set('move.decide.after', async () => {
    await house.killAgent(house.hosts.indexOf(to))
    throw new FailpointError('move.decide.after')
  })
  await moved(house, id)
  const { recovery } = house.replica.parts
  const alarms = () => house.chronicle.find(/may be paused since its move/)
  await recovery.sendDeferred()
  expect(alarms()).toEqual([])
  await house.database.rows(`update deferred_commands set created_at = now() - interval '1 minute'`)
  await recovery.sendDeferred()
  await recovery.sendDeferred()
  const why = 'the host is unreachable'
  expect(alarms()).toMatchObject([{ desktop: id, host: to.id, alarmKind: 'paused', command: 'move.settle', why }])
  await house.restartAgent(house.hosts.indexOf(to))
  await recovery.sendDeferred()
  await expectWholeOn(house, to, id, 'awake')
})

test('an old host that is unreachable behind the decision removes its part when it is back', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'hibernated')
  const from = await house.hostOf(id)
  house.failpoints.set('move.settle.after', () => house.killAgent(house.hosts.indexOf(from)))
  expect((await moved(house, id)).result).toMatchObject({ cleanup: 'deferred' })
  house.failpoints.set('move.settle.after', undefined)
  await house.restartAgent(house.hosts.indexOf(from))
  await expectWholeOn(house, other(house, from), id, 'hibernated')
})

describe('between hosts without an address', () => {
  let house: House
  beforeAll(async () => {
    house = await House.start({ hosts: 2 })
  })
  afterAll(() => house[Symbol.asyncDispose]())

  test.each(kinds)('a desktop that is %s moves through the control plane', async (state) => {
    const id = await desktopIn(house, state)
    const from = await house.hostOf(id)
    const { relays } = house.replica.parts
    let open = 0
    house.failpoints.set('move.arrive.before', async () => {
      open = relays.open
    })
    const { state: ending, result } = await moved(house, id)
    expect([ending, result, open]).toEqual([
      'succeeded',
      expect.objectContaining({ desktop_state: state, cleanup: 'done' }),
      1,
    ])
    expect(relays.open).toBe(0)
    await expectWholeOn(house, other(house, from), id, state)
    await house.ask(id, 'destroy')
  })

  test.each(['awake', 'hibernated'] as const)(
    'a desktop that is %s stays whole in one place when leadership changes in the middle',
    async (state) => {
      const id = await desktopIn(house, state)
      const from = await house.hostOf(id)
      const open: number[] = []
      from.failpoints.set('move.send.after-dial', async () => {
        from.failpoints.set('move.send.after-dial', undefined)
        open.push(house.replica.parts.relays.open)
        await house.endTerm()
      })
      const operation = await moved(house, id)
      expect(open).toEqual([1])
      // What sleeps goes on where it was cut; what is awake goes on where it was.
      expect(operation.state).toBe(state === 'awake' ? 'failed' : 'succeeded')
      await expectWholeOn(house, state === 'awake' ? from : other(house, from), id, state)
      expect(house.replica.parts.relays.open).toBe(0)
      await house.ask(id, 'destroy')
    },
  )

  test('its progress says so, and a cut leaves it where it was', async () => {
    const id = await desktopIn(house, 'awake')
    const from = await house.hostOf(id)
    const release = from.driver.faults.hang('sendMove')
    const { id: operationId } = await beginMove(house, id)
    await waitFor(async () => (await house.operation(operationId)).progress?.phase === 'relaying')
    house.replica.parts.relays.closeAll()
    release()
    expect((await house.settled(operationId)).state).toBe('failed')
    await expectWholeOn(house, from, id, 'awake')
  })
})

test('an address that the old host cannot reach is no obstacle', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'awake')
  const from = await house.hostOf(id)
  const { links } = house.replica.parts
  const command = links.command.bind(links) as (...call: unknown[]) => Promise<never>
  const tried: unknown[] = []
  links.command = (host, name, payload, options) => {
    if (name !== 'move.send') return command(host, name, payload, options)
    const { address } = payload as { address: unknown }
    tried.push(address)
    // Nothing listens there.
    return command(host, name, { ...payload, address: address && { host: '127.0.0.1', port: 1 } }, options)
  }
  expect((await moved(house, id)).state).toBe('succeeded')
  expect(tried).toEqual([expect.objectContaining({ host: '127.0.0.1' }), null])
  await expectWholeOn(house, other(house, from), id, 'awake')
})

test('without relays nothing moves to a host without an address', async () => {
  await using house = await House.start({ hosts: 2, controlPlane: { moveRelayMibps: 0 } })
  const id = await desktopIn(house, 'hibernated')
  const from = await house.hostOf(id)
  expect(await moved(house, id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  await expectWholeOn(house, from, id, 'hibernated')
})

test('a desktop that began by mapping a template’s memory moves only to agents that know such a desktop', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'awake')
  const from = await house.hostOf(id)
  from.driver.faults.namedMemory = true
  const { links } = house.replica.parts
  const command = links.command.bind(links)
  // As an agent of the release before answers.
  links.command = async (host, name, payload, options) => {
    const result = await command(host, name, payload, options)
    return name === 'move.check' ? { ...result, takesNamedMemory: undefined } : result
  }
  expect(await moved(house, id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect((await house.causes(id))[0]).toContain('upgrade the agent')
  links.command = command
  expect(await moved(house, id)).toMatchObject({ state: 'succeeded' })
  await expectWholeOn(house, other(house, from), id, 'awake')
})

test('what an old host has until it can remove it raises no alarm', async () => {
  await using house = await House.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(house, 'awake')
  const from = await house.hostOf(id)
  const { recovery } = house.replica.parts
  from.failpoints.set('move.release.before-remove', 'throw')
  house.failpoints.set('move.settle.after', () => house.killAgent(house.hosts.indexOf(from)))
  expect((await moved(house, id)).result).toMatchObject({ cleanup: 'deferred' })
  await house.restartAgent(house.hosts.indexOf(from))
  await recovery.compare(from.id)
  expect(await house.observed(id, from)).toMatchObject({ domain: 'paused' })
  from.failpoints.set('move.release.before-remove', undefined)
  await house.database.rows('update deferred_commands set last_tried_at = null')
  await recovery.sendDeferred()
  await expectWholeOn(house, other(house, from), id, 'awake')
})

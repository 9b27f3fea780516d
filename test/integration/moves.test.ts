// Guarantee: a desktop that moves is whole in exactly one place, and the database says where: on its old host until the move is
// decided, on its new one from then on. Whatever fails, its owner's memory and disk are there, and its ledger has no gap.
import { FailpointError } from '@dormouse/process'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'
import { before, beginMove, behind, desktopIn, expectWholeOn, kinds, moved, movingAgent, other } from './parts/moved.ts'
import { RfbClient } from './parts/rfb-client.ts'

/** The interval on the new host begins at the moment at which the one on the old host ends. */
async function expectLedger(stack: Stack, id: string, from: Host, to: Host): Promise<void> {
  const rows = await stack.database.rows<{ host: string; gap: boolean | null; open: boolean }>(
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
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 2, agent: movingAgent })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  test('moves, keeps its state and generation, and leaves nothing behind', async () => {
    const id = await desktopIn(stack, state)
    const [desktop, from] = [await stack.see(id), await stack.hostOf(id)]
    const to = other(stack, from)
    const operation = await moved(stack, id)
    expect(operation).toMatchObject({
      kind: 'move',
      requested_by: 'operator',
      state: 'succeeded',
      result: { desktop_state: state, generation: desktop.generation, host_id: to.id, cleanup: 'done' },
    })
    expect((await stack.see(id)).generation).toBe(desktop.generation)
    if (state !== 'stopped') await expectLedger(stack, id, from, to)
    await expectWholeOn(stack, to, id, state)
  })

  // What sleeps without memory takes the way of what sleeps with it.
  test.each(state === 'stopped' ? before.slice(-1) : before)(
    'stays where it was when its move fails after "%s"',
    async (step) => {
      const id = await desktopIn(stack, state)
      const from = await stack.hostOf(id)
      stack.failingAt('move', step)
      expect((await moved(stack, id)).state).toBe('failed')
      stack.failpoints.set(`move.${step}.after`, undefined)
      await expectWholeOn(stack, from, id, state)
    },
  )

  test.each(state === 'stopped' ? behind.slice(0, 1) : behind)(
    'has moved even when its move fails after "%s"',
    async (step) => {
      const id = await desktopIn(stack, state)
      const to = other(stack, await stack.hostOf(id))
      stack.failingAt('move', step)
      await moved(stack, id)
      stack.failpoints.set(`move.${step}.after`, undefined)
      await stack.replica.parts.recovery.sendDeferred()
      await expectWholeOn(stack, to, id, state)
    },
  )

  test.runIf(state !== 'stopped')('moves although each step runs twice, on a later leader', async () => {
    const id = await desktopIn(stack, state)
    const to = other(stack, await stack.hostOf(id))
    stack.repeating('move', ['place', 'begin', 'arrive', 'decide', 'settle', 'release'])
    expect((await moved(stack, id)).state).toBe('succeeded')
    await expectWholeOn(stack, to, id, state)
  })
})

test('no host that is cordoned, full or named by nobody takes it; it stays as it was', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'hibernated')
  const from = await stack.hostOf(id)
  await stack.database.rows('update hosts set cordoned_at = now() where id = $1', [other(stack, from).id])
  expect(await moved(stack, id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect((await stack.causes(id))[0]).toContain('is cordoned')
  await expectWholeOn(stack, from, id, 'hibernated')
})

test.each(['awake', 'hibernated'] as const)(
  'what was %s is lost with its old host, and the new one keeps no part of it',
  async (state) => {
    await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
    const id = await desktopIn(stack, state)
    const from = await stack.hostOf(id)
    const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    using _ = { [Symbol.dispose]: go.resolve }
    stack.failpoints.set('move.arrive.after', () => {
      reached.resolve()
      return go.promise
    })
    const { id: move } = await beginMove(stack, id)
    await reached.promise
    await stack.replica.parts.removals.remove(from.id, 1, async () => undefined)
    expect(await stack.settled(move)).toMatchObject({ state: 'failed', error_code: 'host_removed' })
    await stack.replica.parts.recovery.sendDeferred()
    await stack.shows(id, 'nothing', other(stack, from))
    expect(await stack.database.rows('select 1 from arrivals')).toEqual([])
    expect((await stack.see(id)).state).toBe('failed')
  },
)

test('a new host that is removed before the decision gets nothing; the desktop stays as it was', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'hibernated')
  const from = await stack.hostOf(id)
  stack.failpoints.set('move.decide.before', async () => {
    await stack.replica.parts.removals.remove(other(stack, from).id, 0, async () => undefined)
  })
  const { id: move } = await beginMove(stack, id)
  expect(await stack.settled(move)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect(await stack.see(id)).toMatchObject({ state: 'hibernated', host_id: from.id })
  await stack.ask(id, 'wake')
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

test('a screen ends with 4006, and its page is back by its ticket and keeps the claim', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'awake')
  const { websocket_url: url } = (await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'control' } }))
    .json
  const page = await RfbClient.connect(url, { page: true })
  const { ticket } = await waitFor('a ticket', () => page.notes[0])
  expect((await moved(stack, id)).state).toBe('succeeded')
  expect((await page.closed).code).toBe(4006)
  const back = await RfbClient.connect(url.replace(/[^/]+$/, ticket), { page: true })
  await back.frame()
  back.close()
})

describe('an agent that dies', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 2, agent: movingAgent })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  const deaths = [...before, ...behind].flatMap((step) =>
    (['old', 'new'] as const).map((side) => [side, step] as const),
  )
  test.each(deaths)('on the %s host after "%s" leaves the desktop whole in one place', async (side, step) => {
    const id = await desktopIn(stack, 'awake')
    const from = await stack.hostOf(id)
    const victim = stack.hosts.indexOf(side === 'old' ? from : other(stack, from))
    let back: Promise<void> | undefined
    stack.failpoints.set(`move.${step}.after`, async () => {
      stack.failpoints.set(`move.${step}.after`, undefined)
      await stack.killAgent(victim)
      back = stack.restartAgent(victim)
    })
    const { state } = await moved(stack, id)
    await back
    await stack.replica.parts.recovery.sendDeferred()
    await expectWholeOn(stack, state === 'succeeded' ? other(stack, from) : from, id, 'awake')
    await stack.ask(id, 'destroy')
  })
})

test('an operator moves a desktop by its host’s name, once, and not to where it is', async () => {
  await using stack = await Stack.start({ hosts: 3, agent: movingAgent })
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  const to = stack.hosts.findLast((host) => host !== from)!
  const post = (body: object, wait = '') => stack.api('POST', `/admin/v1/desktops/${id}/move${wait}`, { key, body })
  const reached = Promise.withResolvers<void>()
  const go = Promise.withResolvers<void>()
  using _ = { [Symbol.dispose]: go.resolve }
  stack.failpoints.set('move.send.before', () => {
    reached.resolve()
    return go.promise
  })
  const begun = await post({ to: to.name })
  expect([begun.status, begun.json]).toEqual([202, expect.objectContaining({ kind: 'move', requested_by: 'operator' })])
  await reached.promise
  expect((await post({ to: to.id })).json.id).toBe(begun.json.id)
  expect((await post({})).json.code).toBe('conflict')
  go.resolve()
  expect((await stack.settled(begun.json.id)).result).toMatchObject({ host_id: to.id, desktop_state: 'awake' })
  expect((await post({ to: to.name })).json).toMatchObject({ status: 409, code: 'conflict' })
  expect((await post({ to: 'nowhere' })).status).toBe(404)
  expect((await post({ to: from.name }, '?wait=true')).json).toMatchObject({ state: 'succeeded' })
  expect((await stack.api('POST', `/admin/v1/desktops/${id}/move`, { body: {} })).status).toBe(403)
})

test('a desktop whose new host cannot be asked to run it is named in an alarm, and runs when the host is back', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  stack.chronicle.foresee(/may be paused since its move/)
  const id = await desktopIn(stack, 'awake')
  const to = other(stack, await stack.hostOf(id))
  stack.failpoints.set('move.decide.after', async () => {
    await stack.killAgent(stack.hosts.indexOf(to))
    throw new FailpointError('move.decide.after')
  })
  await moved(stack, id)
  const { recovery } = stack.replica.parts
  const alarms = () => stack.chronicle.find(/may be paused since its move/)
  await recovery.sendDeferred()
  expect(alarms()).toEqual([])
  await stack.database.rows(`update deferred_commands set created_at = now() - interval '1 minute'`)
  await recovery.sendDeferred()
  await recovery.sendDeferred()
  const why = 'the host is unreachable'
  expect(alarms()).toMatchObject([{ desktop: id, host: to.id, alarmKind: 'paused', command: 'move.settle', why }])
  await stack.restartAgent(stack.hosts.indexOf(to))
  await recovery.sendDeferred()
  await expectWholeOn(stack, to, id, 'awake')
})

test('an old host that is unreachable behind the decision removes its part when it is back', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'hibernated')
  const from = await stack.hostOf(id)
  stack.failpoints.set('move.settle.after', () => stack.killAgent(stack.hosts.indexOf(from)))
  expect((await moved(stack, id)).result).toMatchObject({ cleanup: 'deferred' })
  stack.failpoints.set('move.settle.after', undefined)
  await stack.restartAgent(stack.hosts.indexOf(from))
  await expectWholeOn(stack, other(stack, from), id, 'hibernated')
})

describe('between hosts without an address', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 2 })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  test.each(kinds)('a desktop that is %s moves through the control plane', async (state) => {
    const id = await desktopIn(stack, state)
    const from = await stack.hostOf(id)
    const { relays } = stack.replica.parts
    let open = 0
    stack.failpoints.set('move.arrive.before', async () => {
      open = relays.open
    })
    const { state: ending, result } = await moved(stack, id)
    expect([ending, result, open]).toEqual([
      'succeeded',
      expect.objectContaining({ desktop_state: state, cleanup: 'done' }),
      1,
    ])
    expect(relays.open).toBe(0)
    await expectWholeOn(stack, other(stack, from), id, state)
    await stack.ask(id, 'destroy')
  })

  test.each(['awake', 'hibernated'] as const)(
    'a desktop that is %s stays whole in one place when leadership changes in the middle',
    async (state) => {
      const id = await desktopIn(stack, state)
      const from = await stack.hostOf(id)
      const open: number[] = []
      from.failpoints.set('move.send.after-dial', async () => {
        from.failpoints.set('move.send.after-dial', undefined)
        open.push(stack.replica.parts.relays.open)
        await stack.endTerm()
      })
      const operation = await moved(stack, id)
      expect(open).toEqual([1])
      // A move of a sleeping desktop continues after a cut; a desktop that is awake continues on its old host.
      expect(operation.state).toBe(state === 'awake' ? 'failed' : 'succeeded')
      await expectWholeOn(stack, state === 'awake' ? from : other(stack, from), id, state)
      expect(stack.replica.parts.relays.open).toBe(0)
      await stack.ask(id, 'destroy')
    },
  )

  test('its progress says so, and a cut leaves it where it was', async () => {
    const id = await desktopIn(stack, 'awake')
    const from = await stack.hostOf(id)
    const release = from.driver.faults.hang('sendMove')
    const { id: operationId } = await beginMove(stack, id)
    await waitFor(async () => (await stack.operation(operationId)).progress?.phase === 'relaying')
    stack.replica.parts.relays.closeAll()
    release()
    expect((await stack.settled(operationId)).state).toBe('failed')
    await expectWholeOn(stack, from, id, 'awake')
  })
})

test('an address that the old host cannot reach is no obstacle', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  const { links } = stack.replica.parts
  const command = links.command.bind(links) as (...call: unknown[]) => Promise<never>
  const tried: unknown[] = []
  links.command = (host, name, payload, options) => {
    if (name !== 'move.send') return command(host, name, payload, options)
    const { address } = payload as { address: unknown }
    tried.push(address)
    // Nothing listens there.
    return command(host, name, { ...payload, address: address && { host: '127.0.0.1', port: 1 } }, options)
  }
  expect((await moved(stack, id)).state).toBe('succeeded')
  expect(tried).toEqual([expect.objectContaining({ host: '127.0.0.1' }), null])
  await expectWholeOn(stack, other(stack, from), id, 'awake')
})

test('without relays nothing moves to a host without an address', async () => {
  await using stack = await Stack.start({ hosts: 2, controlPlane: { moveRelayMibps: 0 } })
  const id = await desktopIn(stack, 'hibernated')
  const from = await stack.hostOf(id)
  expect(await moved(stack, id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  await expectWholeOn(stack, from, id, 'hibernated')
})

test('what an old host has until it can remove it raises no alarm', async () => {
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  const { recovery } = stack.replica.parts
  from.failpoints.set('move.release.before-remove', 'throw')
  stack.failpoints.set('move.settle.after', () => stack.killAgent(stack.hosts.indexOf(from)))
  expect((await moved(stack, id)).result).toMatchObject({ cleanup: 'deferred' })
  await stack.restartAgent(stack.hosts.indexOf(from))
  await recovery.compare(from.id)
  expect(await stack.observed(id, from)).toMatchObject({ domain: 'paused' })
  from.failpoints.set('move.release.before-remove', undefined)
  await stack.database.rows('update deferred_commands set last_tried_at = null')
  await recovery.sendDeferred()
  await expectWholeOn(stack, other(stack, from), id, 'awake')
})

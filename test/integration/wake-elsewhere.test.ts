// Guarantee: a desktop that sleeps on a cordoned or full host wakes on another one with its memory, if one has capacity; a
// failure on the way leaves it whole in one place, and the next wake works.
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { Host } from './parts/host.ts'

const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }

const cordon = (stack: Stack, host: Host, cordoned = true) =>
  stack.database.rows(`update hosts set cordoned_at = ${cordoned ? 'now()' : 'null'} where id = $1`, [host.id])

const isOfControlPlane = (point: string) => /^(wake|move)\.\w+\.(before|after)$/.test(point)

async function asleepOn(stack: Stack): Promise<{ id: string; from: Host; to: Host }> {
  const { id } = await stack.desktop('awake')
  await stack.remember(id, 'kept')
  await stack.ask(id, 'hibernate')
  const from = await stack.hostOf(id)
  return { id, from, to: stack.hosts.find((host) => host !== from)! }
}

test('it wakes elsewhere while its host is cordoned, as a wake, with its memory', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, to } = await asleepOn(stack)
  await cordon(stack, from)
  const woken = await stack.ask(id, 'wake')
  expect(woken).toMatchObject({ kind: 'wake', result: { generation: 2, host_id: to.id, resumed_from: 'memory' } })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
  await stack.replica.parts.recovery.sendDeferred()
  await stack.shows(id, 'nothing', from)
  await stack.ask(id, 'hibernate')
})

test('it wakes in place where no other host has room, or lets it in', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  const { id, from } = await asleepOn(stack)
  await cordon(stack, from)
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ host_id: from.id, resumed_from: 'memory' })
  // Nothing is left of the move that found no host.
  expect(await stack.database.rows(`select 1 from operations where desktop_id = '${id}' and kind = 'move'`)).toEqual([])
})

test.each([{ agent }, {}])('it wakes elsewhere where its host is full, also through a relay: %j', async (options) => {
  await using stack = await Stack.start({ hosts: 2, ...options })
  const { id, from, to } = await asleepOn(stack)
  await stack.database.rows(
    `insert into reservations (desktop_id, host_id, vcpus, memory_mib, disk_gib) values (gen_random_uuid(), $1, 0, 1000000000, 0)`,
    [from.id],
  )
  expect((await stack.ask(id, 'wake')).result).toMatchObject({ host_id: to.id, resumed_from: 'memory' })
})

test('it goes on behind its move under another leader, and shows what that does', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, to } = await asleepOn(stack)
  await cordon(stack, from)
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  stack.failpoints.set('move.arrive.before', () => {
    reached.resolve()
    return go.promise
  })
  const wake = await stack.begin(id, 'wake')
  await reached.promise
  expect(await stack.see(id)).toMatchObject({ state: 'waking', generation: 2 })
  const shown = await stack.api('GET', `/v1/operations/${wake.id}`)
  expect(shown.json).toMatchObject({ state: 'pending', progress: { phase: 'moving' } })
  stack.failpoints.set('move.arrive.before', undefined)
  const ended = stack.endTerm()
  go.resolve()
  await ended
  expect(await stack.settled(wake.id)).toMatchObject({ result: { generation: 2, host_id: to.id } })
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

describe('a failure', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 2, agent })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  test.each(['move.place.after', 'move.send.before', 'move.arrive.after', 'move.decide.before'])(
    'of the move at "%s" lets it wake in place',
    async (point) => {
      const { id, from } = await asleepOn(stack)
      await cordon(stack, from)
      stack.failpoints.set(point, 'throw')
      const woken = await stack.ask(id, 'wake')
      stack.failpoints.set(point, undefined)
      expect(woken.result).toMatchObject({ host_id: from.id, resumed_from: 'memory' })
      expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
      await cordon(stack, from, false)
    },
  )

  test.each(['wake.place.after', 'wake.run.before'])(
    'at "%s", behind the move, leaves it hibernated on the new host, and the next wake works',
    async (point) => {
      const { id, from, to } = await asleepOn(stack)
      await cordon(stack, from)
      stack.failpoints.set(point, 'throw')
      const failed = await stack.settled((await stack.begin(id, 'wake')).id)
      stack.failpoints.set(point, undefined)
      expect(failed.state).toBe('failed')
      expect(await stack.see(id)).toMatchObject({ state: 'hibernated', host_id: to.id })
      await stack.replica.parts.recovery.sendDeferred()
      await stack.ask(id, 'wake')
      expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
      await cordon(stack, from, false)
    },
  )
})

describe('a destroy while a wake moves it first', () => {
  let stack: Stack
  beforeAll(async () => {
    stack = await Stack.start({ hosts: 2, agent })
  })
  afterAll(() => stack[Symbol.asyncDispose]())

  /** A wake that is held at that point, of the control plane or of the new host. */
  async function wakingAt(point: string) {
    const { id, from, to } = await asleepOn(stack)
    await cordon(stack, from)
    const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
    const { failpoints } = isOfControlPlane(point) ? stack : to
    failpoints.set(point, () => {
      reached.resolve()
      return go.promise
    })
    await stack.begin(id, 'wake')
    await reached.promise
    failpoints.set(point, undefined)
    return { id, from, to, go: go.resolve }
  }

  async function expectNothing(id: string, from: Host): Promise<void> {
    await stack.settle()
    await stack.replica.parts.recovery.sendDeferred()
    for (const host of stack.hosts) await stack.shows(id, 'nothing', host)
    for (const table of ['arrivals', 'reservations', 'deferred_commands'])
      await waitFor(
        `no row in ${table}`,
        async () => (await stack.database.rows(`select 1 from ${table}`)).length === 0,
      )
    await cordon(stack, from, false)
  }

  const points = ['move.place.after', 'move.prepare.after-note', 'move.arrive.before-note', 'move.decide.after']
  test.each(points)('at "%s" leaves no part of it on any host', async (point) => {
    const { id, from, to, go } = await wakingAt(point)
    const destroy = await stack.begin(id, 'destroy')
    go()
    expect(await stack.settled(destroy.id)).toMatchObject({ state: 'succeeded' })
    // At once, and not only when the hosts are compared.
    expect(await stack.observed(id, to)).toBeUndefined()
    await expectNothing(id, from)
  })

  test('leaves no part on a new host that is unreachable, once that is back', async () => {
    const { id, from, to, go } = await wakingAt('move.arrive.before-note')
    await stack.killAgent(stack.hosts.indexOf(to))
    const destroy = await stack.begin(id, 'destroy')
    go()
    expect(await stack.settled(destroy.id)).toMatchObject({ state: 'succeeded' })
    await stack.restartAgent(stack.hosts.indexOf(to))
    await expectNothing(id, from)
  })
})

test('what an earlier move has left on a host is removed first where the desktop goes back there at once', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, to } = await asleepOn(stack)
  const release = `select 1 from deferred_commands where host_id = '${from.id}' and command = 'move.release'`
  stack.failpoints.set('move.settle.after', () => stack.killAgent(stack.hosts.indexOf(from)))
  const move = () => stack.replica.parts.moves.begin(id, { to: null, requestedBy: 'operator', requestId: newId() })
  expect((await stack.settled((await move()).id)).result).toMatchObject({ host_id: to.id, cleanup: 'deferred' })
  stack.failpoints.set('move.settle.after', undefined)
  // Its host is back, and refuses the first attempts of recovery.
  from.failpoints.set('move.release.before-remove', 'throw')
  await stack.restartAgent(stack.hosts.indexOf(from))
  await stack.replica.parts.recovery.sendDeferred()
  await waitFor('a failed attempt', async () => {
    const rows = await stack.database.rows(`${release} and attempts > 0`)
    return rows.length > 0
  })
  from.failpoints.set('move.release.before-remove', undefined)
  expect((await stack.settled((await move()).id)).result).toMatchObject({ host_id: from.id })
  await stack.ask(id, 'wake')
  expect(await stack.recall(id)).toEqual({ memory: 'kept', disk: 'kept' })
})

// Guarantee: what is awake can move as files: hibernated on its old host and woken on the new one, as one operation. Wherever it
// fails, and whatever its customer asks meanwhile, it is whole on one host, awake again if that is possible, and its ledger
// is true. A live move that does not converge goes on like that by itself.
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { before, beginMove, behind, desktopIn, expectWholeOn, moved, movingAgent, other } from './parts/moved.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start({ hosts: 2, agent: movingAgent })
})
afterAll(() => stack[Symbol.asyncDispose]())

const doesNotConverge = () => {
  for (const host of stack.hosts) host.driver.faults.failNext('sendMove', 1, 'move_not_converging')
}
const converges = () => {
  for (const host of stack.hosts) host.driver.faults.failNext('sendMove', 0)
}

/** What is billed of it, in order: where, as what, and whether it follows without a gap. */
const ledger = (id: string) =>
  stack.database.rows<{ host: string; kind: string; gap: boolean | null; open: boolean }>(
    `select host_id as host, kind, upper_inf(period) as open,
       lower(period) <> lag(upper(period)) over (order by lower(period)) as gap
     from usage_intervals where desktop_id = $1 order by lower(period)`,
    [id],
  )

async function expectBilled(id: string, expected: [{ id: string }, string][]): Promise<void> {
  const rows = await ledger(id)
  expect(rows.map(({ host, kind, open }) => [host, kind, open])).toEqual(
    expected.map(([host, kind], at) => [host.id, kind, at === expected.length - 1]),
  )
}

/** A move that waits at that point until it is let go. */
async function movingAt(point: string, mode: 'live' | 'hibernate' = 'hibernate') {
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  stack.failpoints.set(point, () => {
    stack.failpoints.set(point, undefined)
    reached.resolve()
    return go.promise
  })
  const move = await beginMove(stack, id, mode)
  await reached.promise
  return { id, from, to: other(stack, from), move: move.id, go: go.resolve, [Symbol.dispose]: go.resolve }
}

describe.each(['asked for', 'not converging'] as const)('hibernated on the way, as %s', (why) => {
  const mode = why === 'asked for' ? 'hibernate' : 'live'
  const prepare = () => why === 'not converging' && doesNotConverge()

  test('it moves, and keeps its memory and its generation', async () => {
    const id = await desktopIn(stack, 'awake')
    const [desktop, from] = [await stack.see(id), await stack.hostOf(id)]
    const to = other(stack, from)
    prepare()
    const operation = await moved(stack, id, mode)
    converges()
    expect(operation).toMatchObject({
      kind: 'move',
      state: 'succeeded',
      result: { desktop_state: 'awake', host_id: to.id, cleanup: 'done', moved: 'hibernated' },
    })
    expect((await stack.see(id)).generation).toBe(desktop.generation)
    await expectBilled(id, [
      [from, 'awake'],
      [from, 'hibernated'],
      [to, 'hibernated'],
      [to, 'awake'],
    ])
    await expectWholeOn(stack, to, id, 'awake')
  })

  test.each(before)('it is awake where it was when it fails after "%s"', async (step) => {
    const id = await desktopIn(stack, 'awake')
    const from = await stack.hostOf(id)
    prepare()
    stack.failingAt('move', step)
    expect((await moved(stack, id, mode)).state).toBe('failed')
    stack.failpoints.set(`move.${step}.after`, undefined)
    converges()
    await expectWholeOn(stack, from, id, 'awake')
    expect((await ledger(id)).at(-1)).toMatchObject({ host: from.id, kind: 'awake', open: true })
  })

  test.each(behind)('it has moved even when it fails after "%s"', async (step) => {
    const id = await desktopIn(stack, 'awake')
    const to = other(stack, await stack.hostOf(id))
    prepare()
    stack.failingAt('move', step)
    await moved(stack, id, mode)
    stack.failpoints.set(`move.${step}.after`, undefined)
    converges()
    await stack.replica.parts.recovery.sendDeferred()
    const state = step === 'decide' ? 'hibernated' : 'awake'
    await stack.becomes(id, state)
    expect((await ledger(id)).at(-1)).toMatchObject({ host: to.id, kind: state, open: true })
    await expectWholeOn(stack, to, id, state)
  })

  test('it moves although each step runs twice, on a later leader', async () => {
    const id = await desktopIn(stack, 'awake')
    const to = other(stack, await stack.hostOf(id))
    prepare()
    stack.repeating('move', [...before, ...behind])
    expect(await moved(stack, id, mode)).toMatchObject({ state: 'succeeded', result: { moved: 'hibernated' } })
    converges()
    await expectWholeOn(stack, to, id, 'awake')
  })
})

test('operators ask for it in one request, see how far it is, and repeat the request without harm', async () => {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const { id, to, move, go } = await movingAt('move.begin.before')
  const post = (body: object) => stack.api('POST', `/admin/v1/desktops/${id}/move`, { key, body })
  expect((await post({ mode: 'hibernate' })).json).toMatchObject({ id: move, progress: { phase: 'saving' } })
  expect((await post({})).json.code).toBe('conflict')
  expect((await post({ mode: 'cold' })).status).toBe(400)
  go()
  expect((await stack.settled(move)).result).toMatchObject({ host_id: to.id, moved: 'hibernated' })
  const { id: back } = (await post({ mode: 'hibernate' })).json
  expect((await stack.settled(back)).result).toMatchObject({ desktop_state: 'awake', moved: 'hibernated' })
  await stack.ask(id, 'hibernate')
  expect((await post({ mode: 'hibernate' })).status).toBe(202)
  await stack.settle()
  expect((await stack.client.listOperations(id)).operations[0]!.result).toMatchObject({
    desktop_state: 'hibernated',
    moved: 'asleep',
  })
})

/** Work of the hosts that hangs until the returned function is called. */
async function hangs(operation: 'save' | 'restorePaused' | 'removeDisk', mode: 'live' | 'hibernate') {
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  if (mode === 'live') doesNotConverge()
  const begun = (at = operation) => stack.hosts.reduce((sum, { driver }) => sum + (driver.faults.counts[at] ?? 0), 0)
  const count = begun()
  const listeners = stack.hosts.map(({ driver }) => driver.faults.hang(operation))
  const { id: move } = await beginMove(stack, id, mode)
  await waitFor(`${operation} to begin`, () => begun() > count)
  const go = () => {
    for (const listener of listeners) listener()
    converges()
  }
  return { id, from, to: other(stack, from), move, go, [Symbol.dispose]: go }
}

describe.each([
  ['save', 'hibernate'],
  ['restorePaused', 'hibernate'],
  ['removeDisk', 'live'],
  ['save', 'live'],
  ['restorePaused', 'live'],
] as const)('in the middle of %s, %s', (operation, mode) => {
  test('a later leader goes on', async () => {
    using held = await hangs(operation, mode)
    await stack.endTerm()
    held.go()
    expect(await stack.settled(held.move)).toMatchObject({ state: 'succeeded', result: { moved: 'hibernated' } })
    await expectWholeOn(stack, held.to, held.id, 'awake')
  })

  test('the agent that does it dies, and the desktop is whole in one place', async () => {
    using held = await hangs(operation, mode)
    const victim = stack.hosts.indexOf(operation === 'save' ? held.from : held.to)
    const killed = stack.killAgent(victim)
    held.go()
    await killed
    await stack.restartAgent(victim)
    const { state } = await stack.settled(held.move)
    await stack.replica.parts.recovery.sendDeferred()
    await expectWholeOn(stack, state === 'succeeded' ? held.to : held.from, held.id, 'awake')
  })
})

describe.each(['hibernate', 'destroy'] as const)('a customer asks for %s', (kind) => {
  const state = kind === 'hibernate' ? 'hibernated' : 'destroyed'

  test.each(['move.begin.after', 'move.arrive.before', 'move.decide.after'])('at %s, and it wins', async (point) => {
    using held = await movingAt(point)
    const isDecided = point === 'move.decide.after'
    const { generation } = await stack.see(held.id)
    const queued = await stack.begin(held.id, kind, { expected_generation: generation })
    expect(queued.progress).toMatchObject({ phase: 'waiting', queued_behind: 1 })
    held.go()
    expect(await stack.settled(held.move)).toMatchObject(
      isDecided ? { state: 'succeeded' } : { state: 'failed', error_code: 'superseded' },
    )
    expect((await stack.settled(queued.id)).state).toBe('succeeded')
    if (kind === 'hibernate')
      await expectWholeOn(stack, isDecided ? held.to : held.from, held.id, state as 'hibernated')
    else for (const host of stack.hosts) await stack.shows(held.id, 'nothing', host)
  })

  test('while it is saved, and it wins', async () => {
    using held = await hangs('save', 'hibernate')
    const queued = await stack.begin(held.id, kind)
    held.go()
    expect((await stack.settled(held.move)).error_code).toBe('superseded')
    expect((await stack.settled(queued.id)).state).toBe('succeeded')
    expect((await stack.see(held.id)).state).toBe(state)
  })
})

test('in the pause a guest call is 503, and a wake finds it awake', async () => {
  for (const operation of ['save', 'restorePaused'] as const) {
    using held = await hangs(operation, 'hibernate')
    if (operation === 'restorePaused') {
      const refused = await stack.exec(held.id, ['true'])
      expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([
        503,
        'guest_unavailable',
        '2',
      ])
    }
    expect((await stack.api('POST', `/v1/desktops/${held.id}/wake`)).json).toMatchObject({
      code: 'wrong_state',
      state: 'awake',
    })
    held.go()
    expect((await stack.settled(held.move)).state).toBe('succeeded')
    expect((await stack.exec(held.id, ['true'])).status).toBe(200)
  }
})

test('what cannot be woken on its new host sleeps there, and its owner can wake it', async () => {
  const id = await desktopIn(stack, 'awake')
  const to = other(stack, await stack.hostOf(id))
  to.driver.faults.failNext('restorePaused')
  const failed = await moved(stack, id, 'hibernate')
  expect(failed).toMatchObject({ state: 'failed', error_code: 'hypervisor_failed' })
  expect(failed.error).toContain('it has moved all the same, and is asleep')
  expect((await ledger(id)).at(-1)).toMatchObject({ host: to.id, kind: 'hibernated', open: true })
  await expectWholeOn(stack, to, id, 'hibernated')
})

test('what cannot be woken again on its old host sleeps there, and its owner can wake it', async () => {
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  stack.failingAt('move', 'begin')
  from.driver.faults.failNext('restorePaused')
  const failed = await moved(stack, id, 'hibernate')
  stack.failpoints.set('move.begin.after', undefined)
  expect(failed.error).toContain('could not be woken')
  await expectWholeOn(stack, from, id, 'hibernated')
})

test('a save that fails changes nothing', async () => {
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  from.driver.faults.failNext('save')
  expect((await moved(stack, id, 'hibernate')).state).toBe('failed')
  await expectBilled(id, [[from, 'awake']])
  await expectWholeOn(stack, from, id, 'awake')
})

test('a host that a deferred command of a move still waits for gets it before a customer’s request', async () => {
  const id = await desktopIn(stack, 'awake')
  const { id: hostId } = await stack.hostOf(id)
  const { generation } = await stack.see(id)
  const [row] = await stack.database.rows<{ turn: number; epoch: number }>(
    `update desktops set turn = turn + 1 where id = $1 returning turn::int, (select epoch::int from leadership)`,
    [id],
  )
  const operationId = newId()
  const fence = { desktopId: id, generation, turn: row!.turn, operationId, epoch: row!.epoch, deadlineMs: 30_000 }
  await stack.replica.parts.links.command(hostId, 'move.begin', { fence, kind: 'live' })
  await stack.database.rows(
    `insert into deferred_commands (desktop_id, host_id, command, generation, turn, operation_id, attempts, last_tried_at)
     values ($1, $2, 'move.keep', $3, $4, $5, 9, now())`,
    [id, hostId, generation, row!.turn, operationId],
  )
  await stack.ask(id, 'hibernate')
})

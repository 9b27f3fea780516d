// Guarantee: a customer never meets a move: what is asked during one is accepted, waits behind it, and takes effect, wherever the
// desktop then is.
import type { RequestKind } from '@dormouse/contract'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const agent = { moveAddress: { host: '127.0.0.1', port: 0 } }
const asked = [
  ['awake', 'hibernate', 'hibernated'],
  ['hibernated', 'wake', 'awake'],
  ['awake', 'destroy', 'destroyed'],
  ['hibernated', 'destroy', 'destroyed'],
] as const

/** A move that waits at that point until it is let go. */
async function movingAt(stack: Stack, state: 'awake' | 'hibernated', point: string) {
  const { id } = await stack.desktop(state)
  const from = await stack.hostOf(id)
  const go = Promise.withResolvers<void>()
  let reached = false
  stack.failpoints.set(point, () => {
    reached = true
    return go.promise
  })
  const move = await stack.replica.parts.moves.begin(id, { to: null, requestedBy: 'operator', requestId: newId() })
  await waitFor('the move to get there', () => reached)
  return { id, from, move: move.id, go: go.resolve }
}

/** The request is accepted, waits, and changes nothing until the move has settled. */
async function askDuring(stack: Stack, id: string, kind: RequestKind): Promise<string> {
  const before = await stack.see(id)
  const queued = await stack.begin(id, kind, { expected_generation: before.generation })
  expect(queued).toMatchObject({ kind, state: 'pending', progress: { phase: 'waiting', queued_behind: 1 } })
  expect(await stack.see(id)).toMatchObject({ state: before.state, generation: before.generation })
  return queued.id
}

test.each(asked)('before the decision, %s and %s: the move is undone', async (state, kind, then) => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, move, go } = await movingAt(stack, state, 'move.arrive.before')
  const queued = await askDuring(stack, id, kind)
  const again = await stack.api('POST', `/v1/desktops/${id}/${kind}`)
  expect([again.status, again.json.code]).toEqual([409, 'wrong_state'])
  expect(again.text).not.toContain('mov')
  go()
  expect(await stack.settled(move)).toMatchObject({ state: 'failed', error_code: 'superseded' })
  expect(await stack.settled(queued)).toMatchObject({ state: 'succeeded' })
  expect(await stack.see(id)).toMatchObject({ state: then, ...(then !== 'destroyed' && { host_id: from.id }) })
})

test.each(asked)('behind the decision, %s and %s: it goes on on the new host', async (state, kind, then) => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, move, go } = await movingAt(stack, state, 'move.decide.after')
  const queued = await askDuring(stack, id, kind)
  go()
  expect(await stack.settled(move)).toMatchObject({ state: 'succeeded' })
  expect(await stack.settled(queued)).toMatchObject({ state: 'succeeded' })
  expect((await stack.see(id)).state).toBe(then)
  for (const host of stack.hosts) if (then === 'destroyed' || host === from) await stack.shows(id, 'nothing', host)
})

test.each([
  ['awake', 'hibernate'],
  ['hibernated', 'wake'],
] as const)('%s and %s: what an undone move has not ended on its host yet is ended first', async (state, kind) => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, from, move, go } = await movingAt(stack, state, 'move.arrive.before')
  using _ = { [Symbol.dispose]: go }
  await stack.killAgent(stack.hosts.indexOf(from))
  const queued = await askDuring(stack, id, kind)
  go()
  expect(await stack.settled(move)).toMatchObject({ state: 'failed' })
  // The host is asked for both at once: it refuses the request while the undo is in progress.
  from.failpoints.set('move.keep.before-resume', async () => {
    const isRefused = () => stack.chronicle.lines.some(({ msg, outcome }) => msg === 'command' && outcome === 'moving')
    await waitFor('the request to be refused', isRefused)
  })
  await stack.restartAgent(stack.hosts.indexOf(from))
  const { state: settled } = await stack.settled(queued)
  expect([settled, (await stack.causes(id))[0]]).toEqual(['succeeded', null])
})

test('after the decision a guest call is 503 until the desktop runs on its new host', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, move, go } = await movingAt(stack, 'awake', 'move.settle.before')
  using _ = { [Symbol.dispose]: go }
  const exec = () => stack.api('POST', `/v1/desktops/${id}/exec`, { body: { command: ['true'] } })
  const refused = await exec()
  expect([refused.status, refused.json.code, refused.headers['retry-after']]).toEqual([503, 'guest_unavailable', '2'])
  go()
  await stack.settled(move)
  expect((await exec()).status).toBe(200)
})

test('a destroy takes the place of a wake that waits', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, go } = await movingAt(stack, 'hibernated', 'move.send.before')
  const wake = await askDuring(stack, id, 'wake')
  const destroy = await stack.begin(id, 'destroy')
  expect(await stack.settled(wake)).toMatchObject({ state: 'failed', error_code: 'superseded' })
  go()
  expect(await stack.settled(destroy.id)).toMatchObject({ state: 'succeeded' })
})

test('what waits survives a change of leader', async () => {
  await using stack = await Stack.start({ hosts: 2, agent })
  const { id, go } = await movingAt(stack, 'hibernated', 'move.send.before')
  const wake = await askDuring(stack, id, 'wake')
  stack.failpoints.set('move.send.before', undefined)
  const ended = stack.endTerm()
  go()
  await ended
  expect(await stack.settled(wake)).toMatchObject({ state: 'succeeded' })
  expect((await stack.see(id)).state).toBe('awake')
})

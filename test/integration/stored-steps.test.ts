// Guarantee: an operation that the release before has stored in the middle of its steps is resumed there, and settles.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { beginMove, desktopIn, expectWholeOn, movingAgent, other } from './parts/moved.ts'

/** Positions as the release before stored them: it marked each step, also one that has nothing to do. */
const positions = [
  { name: 'place', step: 0, onHost: false },
  { name: 'disk', step: 1, onHost: true },
  { name: 'run', step: 2, onHost: true },
]

test.each(positions)(
  'a wake of a saved desktop that is stored at "$name" resumes there',
  async ({ name, step, onHost }) => {
    await using stack = await Stack.start()
    const { id } = await stack.desktop('hibernated')
    const hostId = stack.host.id
    await stack.killAgent()
    const wake = await stack.begin(id, 'wake')
    await waitFor('its first try', () => stack.failpoints.hits.includes('wake.place.before'))
    await stack.replica.stop()
    await stack.database.rows(
      `update operations set state = 'running', step = $2, findings = $3, timeline = $4 where id = $1`,
      [wake.id, step, onHost ? { hostId } : {}, JSON.stringify([{ step: name, way: 'run', at: new Date() }])],
    )
    const before = stack.failpoints.hits.length
    await stack.replica.start()
    await stack.restartAgent()
    expect(await stack.settled(wake.id)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'memory' } })
    expect(stack.failpoints.hits.slice(before).filter((hit) => hit.startsWith('wake.'))[0]).toBe(`wake.${name}.before`)
  },
)

test('a wake stores its place and the step that follows at once, and shows both to operators', async () => {
  await using stack = await Stack.start()
  for (const [state, steps] of [
    ['created', ['place', 'disk', 'run']],
    ['hibernated', ['place', 'run']],
  ] as const) {
    const { id } = await stack.desktop(state)
    const { id: operation } = await stack.ask(id, 'wake')
    const [row] = await stack.database.rows<{ timeline: { step: string }[]; step: number }>(
      'select timeline, step from operations where id = $1',
      [operation],
    )
    expect(row!.timeline.map((mark) => mark.step)).toEqual(steps)
    expect(row!.step).toBe(2)
  }
})

/** Rows of moves as they were stored before a move had a mode, at each step that reaches a host. */
const storedMoves = [
  { name: 'begin', step: 1, found: {}, ends: 'succeeded' },
  { name: 'send', step: 2, found: { begun: 'simulated' }, ends: 'succeeded' },
  { name: 'begin', step: 1, found: {}, undoing: true, ends: 'failed' },
] as const

test.each(storedMoves)('a move that is stored at "$name" without a mode goes on there: $ends', async (stored) => {
  const { name, step, found, ends } = stored
  await using stack = await Stack.start({ hosts: 2, agent: movingAgent })
  const id = await desktopIn(stack, 'awake')
  const from = await stack.hostOf(id)
  const to = other(stack, from)
  const [reached, go] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  stack.failpoints.set(`move.${name}.after`, () => {
    reached.resolve()
    return go.promise
  })
  const move = await beginMove(stack, id)
  await reached.promise
  await stack.replica.stopAt(go.resolve)
  stack.failpoints.set(`move.${name}.after`, undefined)
  const { mode: _, ...input } = move.input
  expect(Object.keys(input).sort()).toEqual(['discardMemory', 'from', 'hostId', 'spec', 'to'])
  const { imageVersion } = input.spec as { imageVersion: string }
  const isUndoing = 'undoing' in stored
  const failure = isUndoing ? { code: 'hypervisor_failed', detail: 'it failed', cause: 'why' } : null
  await stack.database.rows(
    `update operations set state = 'running', step = $2, input = $3, findings = $4, undoing = $5, failure = $6,
       timeline = $7 where id = $1`,
    [
      move.id,
      step,
      input,
      { to: to.id, kind: 'live', imageDigest: `simulated ${imageVersion}`, ...found },
      isUndoing,
      failure,
      JSON.stringify([{ step: name, way: isUndoing ? 'undo' : 'run', at: new Date() }]),
    ],
  )
  await stack.replica.start()
  await stack.replica.leading()
  for (const host of stack.hosts) await stack.linked(host)
  expect((await stack.settled(move.id)).state).toBe(ends)
  await expectWholeOn(stack, ends === 'succeeded' ? to : from, id, 'awake')
})

// Guarantee: an operation that the release before has stored in the middle of its steps is resumed there, and settles.
import { expect, test } from 'vitest'
import { House } from '../house.ts'
import { waitFor } from '../wait-for.ts'

/** Positions as the release before stored them: it marked each step, also one that has nothing to do. */
const positions = [
  { name: 'place', step: 0, onHost: false },
  { name: 'disk', step: 1, onHost: true },
  { name: 'run', step: 2, onHost: true },
]

test.each(positions)(
  'a wake of a saved desktop that is stored at "$name" resumes there',
  async ({ name, step, onHost }) => {
    await using house = await House.start()
    const { id } = await house.desktop('hibernated')
    const hostId = house.host.id
    await house.killAgent()
    const wake = await house.begin(id, 'wake')
    await waitFor('its first try', () => house.failpoints.hits.includes('wake.place.before'))
    await house.replica.stop()
    await house.database.rows(
      `update operations set state = 'running', step = $2, findings = $3, timeline = $4 where id = $1`,
      [wake.id, step, onHost ? { hostId } : {}, JSON.stringify([{ step: name, way: 'run', at: new Date() }])],
    )
    const before = house.failpoints.hits.length
    await house.replica.start()
    await house.restartAgent()
    expect(await house.settled(wake.id)).toMatchObject({ state: 'succeeded', result: { resumed_from: 'memory' } })
    expect(house.failpoints.hits.slice(before).filter((hit) => hit.startsWith('wake.'))[0]).toBe(`wake.${name}.before`)
  },
)

test('a wake stores its place and the step that follows at once, and shows both to operators', async () => {
  await using house = await House.start()
  for (const [state, steps] of [
    ['created', ['place', 'disk', 'run']],
    ['hibernated', ['place', 'run']],
  ] as const) {
    const { id } = await house.desktop(state)
    const { id: operation } = await house.ask(id, 'wake')
    const [row] = await house.database.rows<{ timeline: { step: string }[]; step: number }>(
      'select timeline, step from operations where id = $1',
      [operation],
    )
    expect(row!.timeline.map((mark) => mark.step)).toEqual(steps)
    expect(row!.step).toBe(2)
  }
})

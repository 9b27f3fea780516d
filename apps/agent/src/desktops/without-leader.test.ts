// Guarantee: a host without a leader hibernates what is idle by the last rules, and nothing else; afterwards commands go on.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Bench, fenceOf, until } from '../testing/bench.ts'
import { WithoutLeader } from './without-leader.ts'

const minute = 60_000
const graceMs = 10 * minute

async function stage(options: { graceMs?: number; heldMs?: number } = { graceMs }) {
  const bench = await Bench.start()
  const desktopId = newId()
  await bench.awake(fenceOf(desktopId, 1, 1))
  const clock = { now: 0 }
  const alone = new WithoutLeader(bench.parts, { graceMs: options.graceMs, now: () => clock.now })
  // Its own clock: the time for which the desktop was watched is real.
  const watchedSince = performance.now()
  const condition = { forMs: 1, classes: ['command' as const] }
  await until(() => performance.now() - watchedSince > condition.forMs)
  const rule = { desktopId, condition, heldMs: options.heldMs ?? 0 }
  const state = async () => (await bench.observe(desktopId)).domain
  return { bench, desktopId, clock, alone, rule, state }
}

test('it waits for the timeout and the grace, and the saved memory wakes by the next command', async () => {
  const { bench, desktopId, clock, alone, rule, state } = await stage()
  await using _ = bench
  expect(alone.asks).toBe(true)
  alone.heard({ leads: true, idleRules: [rule] })
  expect(alone.asks).toBe(false)
  clock.now = graceMs
  await alone.check()
  alone.heard({ leads: false, idleRules: [] })
  expect([await state(), alone.asks]).toEqual(['running', true])
  clock.now = graceMs + minute
  await alone.check()
  expect(await bench.observe(desktopId)).toMatchObject({
    domain: 'absent',
    memory: 'complete',
    turn: 1,
    reason: expect.stringContaining('no leader'),
  })
  expect(await bench.awake(fenceOf(desktopId, 2, 2))).toMatchObject({ resumedFrom: 'memory' })
  expect((await bench.observe(desktopId)).reason).toBeNull()
})

test.each([
  ['switched off', {}, () => undefined],
  ['held by a wake lock', { graceMs, heldMs: 2 * graceMs }, () => undefined],
  ['in use', { graceMs }, ({ bench, desktopId }) => bench.parts.activity.begin(desktopId, 'command')],
  ['shown', { graceMs }, ({ bench, desktopId }) => bench.parts.activity.show(desktopId)],
] as [string, { graceMs?: number }, (on: Awaited<ReturnType<typeof stage>>) => unknown][])(
  'nothing that is %s',
  async (_what, options, use) => {
    const on = await stage(options)
    await using _ = on.bench
    on.alone.heard({ leads: true, idleRules: [on.rule] })
    use(on)
    on.clock.now = graceMs + minute
    await on.alone.check()
    expect(await on.state()).toBe('running')
  },
)

test('nothing for which no leader has sent a rule, and everything else in the parts stays as it is', async () => {
  const { bench, clock, alone, state } = await stage()
  await using _ = bench
  alone.heard({ leads: true, idleRules: [] })
  clock.now = graceMs + minute
  await alone.check()
  expect(await state()).toBe('running')
})

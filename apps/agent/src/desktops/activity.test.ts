// Guarantee: a desktop that is used is never called idle, and a report has only what is new.
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Activity } from './activity.ts'
import { ActivityReports } from './activity-reports.ts'
import { UsageSamples } from './usage-samples.ts'

const id = newId()
const all = { forMs: 1_000, classes: ['command', 'transfer', 'cpu', 'network'] as const }
const idleFor = (classes: (typeof all.classes)[number][] = [...all.classes]) => ({ forMs: all.forMs, classes })

function watched() {
  const clock = { now: 5_000 }
  const activity = new Activity(() => clock.now)
  activity.watch(id)
  return { clock, activity }
}

test('a command counts while it runs and for the time after it, whatever the policy says while it runs', () => {
  const { clock, activity } = watched()
  clock.now += 10_000
  const command = activity.begin(id, 'command')
  clock.now += 10_000
  expect(() => activity.hold(id, idleFor([]))).toThrow(/in use: command/)
  expect(activity.of(id, 1)).toMatchObject({ busy: ['command'], ages: { command: 10_000 } })
  command[Symbol.dispose]()
  clock.now += 999
  expect(() => activity.hold(id, idleFor())).toThrow(/in use: command/)
  expect(() => activity.hold(id, idleFor(['transfer']))).not.toThrow()
  clock.now += 1
  expect(() => activity.hold(id, idleFor())).not.toThrow()
})

test('what was not watched for so long is not idle', () => {
  const { clock, activity } = watched()
  clock.now += 999
  expect(() => activity.hold(id, idleFor())).toThrow(/not watched/)
  clock.now += 1
  using _held = activity.hold(id, idleFor())
  activity.retain(new Set())
  expect(() => activity.hold(id, idleFor())).toThrow(/not watched/)
})

test('nothing begins while it is held, and everything does afterwards', () => {
  const { clock, activity } = watched()
  clock.now += 2_000
  {
    using _held = activity.hold(id, idleFor())
    expect(() => activity.begin(id, 'transfer')).toThrow(/about to hibernate/)
    expect(activity.of(id, 1).ages).toEqual({})
  }
  activity.begin(id, 'transfer')[Symbol.dispose]()
  expect(activity.of(id, 1)).toMatchObject({ busy: [], ages: { transfer: 0 } })
})

test('each link gets everything once, and then what has changed', () => {
  const { clock, activity } = watched()
  const reports = new ActivityReports(activity)
  const [one, other] = [{}, {}]
  const running = [
    { desktopId: id, generation: 1 },
    { desktopId: newId(), generation: 2 },
  ]
  const said = (link: object) => reports.changed(link, running).map(({ desktopId }) => desktopId)
  expect(said(one)).toHaveLength(2)
  clock.now += 1_000
  expect(said(one)).toEqual([])
  const command = activity.begin(id, 'command')
  expect(said(one)).toEqual([id])
  clock.now += 1_000
  expect(said(one)).toEqual([])
  command[Symbol.dispose]()
  expect([said(one), said(one)]).toEqual([[id], []])
  expect(said(other)).toHaveLength(2)
  running[0] = { desktopId: id, generation: 2 }
  expect(said(one)).toEqual([id])
})

test('processor and network count above their thresholds, from the second sample on', async () => {
  const { activity } = watched()
  const used = { processorMs: 1e9, networkBytes: 1e12 }
  const samples = new UsageSamples({
    driver: { usage: async () => new Map([[id, { ...used }]]) },
    watch: { running: () => [{ desktopId: id, generation: 1 }] },
    activity,
    figures: { isDue: () => false, note: async () => undefined },
    fullDisks: { used: () => undefined },
    thresholds: { cpuPercent: 25, networkKibps: 32 },
  })
  await samples.sample()
  expect(activity.of(id, 1)).toMatchObject({ busy: [], ages: {} })
  used.processorMs += 1e6
  await samples.sample()
  expect(activity.of(id, 1).busy).toEqual(['cpu'])
  used.networkBytes += 1e9
  await samples.sample()
  expect(activity.of(id, 1)).toMatchObject({ busy: ['network'], ages: { cpu: expect.any(Number) } })
  used.processorMs = 0
  await samples.sample()
  expect(activity.of(id, 1).busy).toEqual([])
})

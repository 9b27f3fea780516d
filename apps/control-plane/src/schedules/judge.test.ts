// Guarantee: a time of a schedule is done once, if it is less than an hour late and the desktop's state allows it; otherwise it is
// skipped, and said so. An end goes before everything.
import type { DesktopState } from '@dormouse/contract'
import { expect, test } from 'vitest'
import type { Plan } from '../desktops/plans.ts'
import { judge, lookAt } from './judge.ts'

const at = (clock: string) => new Date(`2026-01-05T${clock}Z`)
const now = at('09:00:00.500')
const plan = (changes: Partial<Plan> = {}): Plan => ({
  schedule: null,
  after: { wake: null, hibernate: null },
  destroyAt: null,
  destroySoonNoted: false,
  state: 'hibernated',
  now,
  ...changes,
})
const daily = (hour: number, minute = 0) => ({ cron: `${minute} ${hour} * * *`, time_zone: 'UTC' })
const since = (wake: string | null, hibernate: string | null = null) => ({
  after: { wake: wake ? at(wake) : null, hibernate: hibernate ? at(hibernate) : null },
})
const wakeAt9 = (state: DesktopState) => plan({ schedule: { wake: daily(9) }, ...since('08:00:00'), state })
const sleepAt9 = (state: DesktopState) => plan({ schedule: { hibernate: daily(9) }, ...since(null, '08:00:00'), state })

test.each<[string, Plan, object]>([
  ['nothing', plan(), { do: 'nothing' }],
  ['a time that has come', wakeAt9('hibernated'), { do: 'act', action: 'wake', plannedAt: at('09:00:00'), until: now }],
  ['a first wake', wakeAt9('created'), { do: 'act' }],
  ['a wake of what is awake', wakeAt9('awake'), { do: 'pass', action: 'wake' }],
  ['a wake of what wakes', wakeAt9('waking'), { do: 'pass' }],
  ['a wake of what is being saved', wakeAt9('hibernating'), { do: 'look_again', inMs: 2_000 }],
  ['a wake of what is lost', wakeAt9('failed'), { do: 'skip', reason: 'wrong_state' }],
  ['a wake of what is destroyed', wakeAt9('destroyed'), { do: 'nothing' }],
  ['a hibernation', sleepAt9('awake'), { do: 'act', action: 'hibernate' }],
  ['a hibernation of what sleeps', sleepAt9('stopped'), { do: 'pass', action: 'hibernate' }],
  ['a hibernation of what wakes', sleepAt9('waking'), { do: 'look_again' }],
  [
    'a time that was missed by 59 minutes',
    plan({ schedule: { wake: daily(8, 1) }, ...since('00:00:00') }),
    { do: 'act', plannedAt: at('08:01:00') },
  ],
  [
    'a time that was missed by 61 minutes',
    plan({ schedule: { wake: daily(7, 59) }, ...since('00:00:00') }),
    { do: 'skip', reason: 'missed', plannedAt: at('07:59:00'), until: at('08:00:00.500') },
  ],
  ['a time that is done', plan({ schedule: { wake: daily(9) }, ...since('09:00:00.100') }), { do: 'nothing' }],
  [
    'a hibernation before a wake, both missed',
    plan({
      schedule: { wake: daily(8, 50), hibernate: daily(8, 40) },
      ...since('00:00:00', '00:00:00'),
      state: 'awake',
    }),
    { do: 'skip', action: 'hibernate', reason: 'overtaken', until: at('08:50:00') },
  ],
  [
    'a wake before a hibernation, both missed',
    plan({ schedule: { wake: daily(8, 40), hibernate: daily(8, 50) }, ...since('00:00:00', '00:00:00') }),
    { do: 'skip', action: 'wake', reason: 'overtaken' },
  ],
  [
    'both at the same time',
    plan({ schedule: { wake: daily(9), hibernate: daily(9) }, ...since('08:00:00', '08:00:00'), state: 'awake' }),
    { do: 'skip', action: 'hibernate', reason: 'overtaken' },
  ],
  [
    'one time',
    plan({ schedule: { wake: { at: '2026-01-05T08:30:00.000Z' } }, ...since('08:00:00') }),
    { do: 'act', plannedAt: at('08:30:00') },
  ],
  ['an end', plan({ destroyAt: at('08:59:59') }), { do: 'destroy' }],
  ['an end of what is being saved', plan({ destroyAt: now, state: 'hibernating' }), { do: 'destroy' }],
  ['an end under way', plan({ destroyAt: now, state: 'destroying' }), { do: 'look_again', inMs: 60_000 }],
  ['an end before a wake', { ...wakeAt9('hibernated'), destroyAt: now }, { do: 'destroy' }],
  ['an hour before the end', plan({ destroyAt: at('10:00:00') }), { do: 'note_end' }],
  [
    'an hour before an end that is noted',
    plan({ destroyAt: at('10:00:00'), destroySoonNoted: true }),
    { do: 'nothing' },
  ],
  ['more than an hour before the end', plan({ destroyAt: at('10:00:01') }), { do: 'nothing' }],
])('%s', (_, given, expected) => {
  expect(judge(given)).toMatchObject(expected)
})

test('times that were missed again and again are done once, and skipped once', () => {
  const everyTen = plan({ schedule: { wake: { cron: '*/10 * * * *', time_zone: 'UTC' } }, ...since('03:00:00') })
  const skipped = judge(everyTen)
  expect(skipped).toMatchObject({ do: 'skip', reason: 'missed', plannedAt: at('03:10:00') })
  const rest = { ...everyTen, after: { wake: (skipped as { until: Date }).until, hibernate: null } }
  expect(judge(rest)).toMatchObject({ do: 'act', plannedAt: at('08:10:00'), until: now })
  expect(judge({ ...rest, after: { wake: now, hibernate: null } })).toEqual({ do: 'nothing' })
})

test('it is looked at again at the earliest of its times', () => {
  expect(lookAt(plan())).toBeNull()
  expect(lookAt(plan({ destroyAt: at('12:00:00') }))).toEqual(at('11:00:00'))
  expect(lookAt(plan({ destroyAt: at('12:00:00'), destroySoonNoted: true }))).toEqual(at('12:00:00'))
  expect(lookAt({ ...wakeAt9('awake'), ...since('09:00:00.100') })).toEqual(new Date('2026-01-06T09:00:00Z'))
  expect(lookAt(plan({ destroyAt: at('12:00:00'), state: 'destroyed' }))).toBeNull()
})

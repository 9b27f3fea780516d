// Guarantee: an exec with a timeout, or with `keep_awake`, is a command in flight while it runs; any other counts only while bytes
// move. Desktops that this agent has not seen yet are looked at once.
import { type DesktopId, newId, Refusal } from '@dormouse/contract'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import type { Guests } from '../driver/guest-transport.ts'
import type { ExecReport } from '../scripts/supervisor.ts'
import { Activity } from './activity.ts'
import { ExecActivity } from './exec-activity.ts'

const upTo = (end: number) => ({ start: 0, end, dropped_bytes: 0 })

const report = (more: Partial<ExecReport> = {}): ExecReport => ({
  id: newId(),
  state: 'running',
  ...{ exit_code: null, signal: null, reason: null, started_at: '2026-01-01T12:00:00.000Z', ended_at: null },
  ...{ tty: false, keep_awake: false, timeout_secs: null, command: '' },
  ...{ stdout: upTo(0), stderr: upTo(0), stdin: { end: 0, open: false } },
  ...more,
})

function stage() {
  const desktopId: DesktopId = newId()
  const seen = { running: [{ desktopId, generation: 1 }], execs: [] as ExecReport[], looks: 0, refuses: false }
  let now = 0
  const activity = new Activity(() => now)
  const execs = {
    running: async () => {
      seen.looks++
      if (seen.refuses) throw new Refusal('guest_unavailable', 'silent')
      return seen.execs
    },
  }
  const guests = { guest: () => undefined } as unknown as Guests
  const log = createLog({ name: 'test', level: 'silent' })
  const subject = new ExecActivity({ watch: { running: () => seen.running }, guests, execs, activity, log })
  const look = async (afterMs = 1_000) => {
    now += afterMs
    await subject.look()
    return activity.of(desktopId, 1)
  }
  return { seen, subject, look, target: { desktopId, generation: 1 } }
}

test('one without a timeout counts when bytes have moved, and not by running', async () => {
  const { seen, look } = stage()
  seen.execs = [report({ stdout: upTo(5) })]
  expect(await look()).toMatchObject({ busy: [], ages: {} })
  expect(await look()).toMatchObject({ busy: [], ages: {} })
  seen.execs = [report({ stdout: upTo(6) })]
  expect(await look()).toMatchObject({ busy: [], ages: { command: 0 } })
  expect(await look()).toMatchObject({ busy: [], ages: { command: 1_000 } })
})

test.each([{ timeout_secs: 60 }, { keep_awake: true }])('one with %j is in flight until it ends', async (more) => {
  const { seen, look } = stage()
  seen.execs = [report(more)]
  expect((await look()).busy).toEqual(['command'])
  seen.refuses = true
  expect((await look()).busy).toEqual(['command'])
  seen.refuses = false
  seen.execs = [report({ ...more, state: 'exited', exit_code: 0 })]
  expect((await look()).busy).toEqual([])
})

test('a guest without running execs is looked at once, until one is started or it wakes again', async () => {
  const { seen, subject, look, target } = stage()
  await look()
  await look()
  expect(seen.looks).toBe(1)
  subject.started(target, report({ timeout_secs: 5 }))
  expect((await look(0)).busy).toEqual([])
  expect(seen.looks).toBe(2)
  seen.running = [{ ...target, generation: 2 }]
  await look()
  expect(seen.looks).toBe(3)
})

test('a desktop that no longer runs holds nothing', async () => {
  const { seen, subject, look, target } = stage()
  subject.started(target, report({ keep_awake: true }))
  seen.running = []
  expect((await look()).busy).toEqual([])
})

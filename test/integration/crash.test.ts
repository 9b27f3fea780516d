// The short form of the crash test, and the proof that its judge can find a fault.
import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, inject, test } from 'vitest'
import { killInFetch } from '../crash/fetches.ts'
import { plansOf } from '../crash/plan.ts'
import { runTrials } from '../crash/run.ts'
import { simulatedTestbed } from '../crash/testbeds.ts'
import type { Outcome, Sabotage } from '../crash/trial.ts'

/** Each trial waits, bounded, for everything that it began. */
const atMostMs = 600_000

const forget: Sabotage = {
  found: /^the accepted \w+ \S+ is not known any more$/,
  act: async ({ pool }, asked) => {
    const { operationId } = asked.find(({ operationId }) => operationId)!
    await pool.query('delete from operations where id = $1', [operationId])
  },
}

/** Takes away every memory of a desktop that was asleep when it was asked to wake, its warm copy among them. */
const amnesia: Sabotage = {
  found: /^the wake from hibernated is failed \(.*memory/i,
  act: async ({ testbed }, asked) => {
    const state = testbed.agentEnv.DORMOUSE_AGENT_STATE_DIR!
    const saved = join(state, 'memory')
    const known = readdirSync(saved)
    const woken = asked.filter(({ kind, from }) => kind === 'wake' && from === 'hibernated')
    for (const { desktopId } of woken.filter(({ desktopId }) => known.includes(desktopId))) {
      rmSync(join(saved, desktopId), { recursive: true })
      rmSync(join(state, 'simulated/domains', `${desktopId}.json`), { force: true })
    }
  },
}

let trials: Outcome[]
let forgotten: Outcome
let gone: Outcome
let fetchFaults: string[]

beforeAll(async () => {
  const databaseServer = inject('databaseUrl')
  trials = await runTrials({
    ...{
      plans: (spanMs: number) => plansOf(3, 3, spanMs),
      testbed: simulatedTestbed,
      databaseServer,
      sabotages: [forget, amnesia],
    },
    afterwards: async (stage) => {
      fetchFaults = await killInFetch(stage, ['image.during-file=kill@3', 'image.before-rename=kill'])
    },
  })
  ;[forgotten, gone] = trials.splice(3) as [Outcome, Outcome]
}, atMostMs)

test('kill -9 of control plane and agent in the middle of eight accepted operations loses nothing and leaves nothing half-made', () => {
  expect(trials.flatMap(({ faults }) => faults)).toEqual([])
  for (const { accepted, known, finishedWell } of trials) expect([known, finishedWell]).toEqual([accepted, accepted])
})

test('the judge finds an accepted operation that was forgotten', () => {
  expect(forgotten.gone).toBe(1)
  expect(forgotten.faults).toContainEqual(expect.stringMatching(forget.found))
})

test('the judge finds a memory that is gone', () => {
  expect(gone.gone).toBe(0)
  expect(gone.faults).toContainEqual(expect.stringMatching(amnesia.found))
})

test('kill -9 of the agent while it fetches an image leaves it whole or not at all, and the wake goes on', () => {
  expect(fetchFaults).toEqual([])
})

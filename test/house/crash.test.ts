// The short form of the crash test, and the proof that its judge can find a fault.

import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { simulatedGround } from '../crash/grounds.ts'
import { runTrials } from '../crash/run.ts'
import type { Sabotage } from '../crash/trial.ts'

const databaseServer = () => inject('databaseUrl')

test('kill -9 of control plane and agent in the middle of eight accepted operations loses nothing and leaves nothing half-made', async () => {
  const outcomes = await runTrials({ trials: 3, seed: 3, ground: simulatedGround, databaseServer: databaseServer() })
  expect(outcomes.flatMap(({ faults }) => faults)).toEqual([])
  for (const { accepted, known, finishedWell } of outcomes) expect([known, finishedWell]).toEqual([accepted, accepted])
}, 180_000)

const forget: Sabotage = async ({ pool }, asked) => {
  await pool.query('delete from operations where id = $1', [asked.find(({ operationId }) => operationId)?.operationId])
}

/** Takes away the memory of a desktop that was saved before the crash. */
const amnesia: Sabotage = async ({ ground }, asked) => {
  const saved = join(ground.agentEnv.DORMOUSE_AGENT_STATE_DIR!, 'memory')
  const known = readdirSync(saved)
  for (const { desktopId, from } of asked) {
    if (from === 'hibernated' && known.includes(desktopId)) rmSync(join(saved, desktopId), { recursive: true })
  }
}

test('the judge finds an accepted operation that was forgotten', async () => {
  const run = { trials: 1, seed: 5, ground: simulatedGround, databaseServer: databaseServer() }
  const [outcome] = await runTrials({ ...run, sabotage: forget })
  expect(outcome!.gone).toBeGreaterThan(0)
  expect(outcome!.faults.join('\n')).toMatch(/is not known any more/)
}, 180_000)

test('the judge finds a memory that is gone', async () => {
  const run = { trials: 1, seed: 6, ground: simulatedGround, databaseServer: databaseServer() }
  const [outcome] = await runTrials({ ...run, sabotage: amnesia })
  expect(outcome!.faults).not.toEqual([])
}, 180_000)

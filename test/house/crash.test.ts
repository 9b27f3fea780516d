// The short form of the crash test, and the proof that its judge can find a fault.

import { readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, inject, test } from 'vitest'
import { simulatedGround } from '../crash/grounds.ts'
import { runTrials } from '../crash/run.ts'
import type { Sabotage } from '../crash/trial.ts'

/** Each waits, bounded, for everything that it began. */
const atMostMs = 600_000

const databaseServer = () => inject('databaseUrl')

test(
  'kill -9 of control plane and agent in the middle of eight accepted operations loses nothing and leaves nothing half-made',
  async () => {
    const outcomes = await runTrials({ trials: 3, seed: 3, ground: simulatedGround, databaseServer: databaseServer() })
    expect(outcomes.flatMap(({ faults }) => faults)).toEqual([])
    for (const { accepted, known, finishedWell } of outcomes)
      expect([known, finishedWell]).toEqual([accepted, accepted])
  },
  atMostMs,
)

const forget: Sabotage = async ({ pool }, asked) => {
  await pool.query('delete from operations where id = $1', [asked.find(({ operationId }) => operationId)?.operationId])
}

/** Takes away every memory that was saved when the crash came; notes whose. */
const amnesia =
  (taken: string[]): Sabotage =>
  async ({ ground }, asked) => {
    const saved = join(ground.agentEnv.DORMOUSE_AGENT_STATE_DIR!, 'memory')
    const known = readdirSync(saved)
    for (const { desktopId, kind } of asked) {
      if (kind === 'destroy' || !known.includes(desktopId)) continue
      rmSync(join(saved, desktopId), { recursive: true })
      taken.push(desktopId)
    }
  }

test(
  'the judge finds an accepted operation that was forgotten',
  async () => {
    const run = { trials: 1, seed: 5, ground: simulatedGround, databaseServer: databaseServer() }
    const [outcome] = await runTrials({ ...run, sabotage: forget })
    expect(outcome!.gone).toBeGreaterThan(0)
    expect(outcome!.faults.join('\n')).toMatch(/is not known any more/)
  },
  atMostMs,
)

test(
  'the judge finds a memory that is gone',
  async () => {
    // What is saved at the moment of the crash is left to chance: it is tried until there is something to take.
    for (const seed of [6, 7, 8, 9]) {
      const taken: string[] = []
      const run = { trials: 1, seed, ground: simulatedGround, databaseServer: databaseServer() }
      const [outcome] = await runTrials({ ...run, sabotage: amnesia(taken) })
      if (taken.length === 0) continue
      expect(outcome!.faults).not.toEqual([])
      return
    }
    throw new Error('no crash left a saved memory to take away')
  },
  atMostMs,
)

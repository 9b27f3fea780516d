// A run of crash trials on one testbed: Postgres, stage, trials one after another. Says each outcome as it comes.
import { randomBytes } from 'node:crypto'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { startPostgres } from '../../scripts/testbed/postgres.ts'
import { Secrets } from '../secrets.ts'
import { databaseNamed, query } from '../setup/postgres.ts'
import type { Plan } from './plan.ts'
import { Stage } from './stage.ts'
import type { HostTestbed } from './testbeds.ts'
import { type Outcome, runTrial, type Sabotage } from './trial.ts'

export interface RunOptions {
  /** For the testbed's span of moments. */
  plans: (spanMs: number) => Plan[]
  /** Makes the host's testbed below the folder of the run. */
  testbed: (folder: string) => HostTestbed | Promise<HostTestbed>
  /** A Postgres that is there; by default one of the run's own. */
  databaseServer?: string
  tell?: (outcome: Outcome) => void
  /** Trials after those of the plan, in which the agent is killed at once and the judge must find a fault. */
  sabotages?: Sabotage[]
  /** Uses the same processes once all trials are over. */
  afterwards?: (stage: Stage) => Promise<void>
  /** Where the logs are left; by default they are removed with the run if it found no fault. */
  keep?: (folder: string) => void
}

export async function runTrials({
  plans: planned,
  testbed,
  databaseServer,
  tell,
  sabotages = [],
  afterwards,
  keep,
}: RunOptions): Promise<Outcome[]> {
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-crash-'))
  const own = databaseServer
    ? undefined
    : await startPostgres({
        dataDir: join(folder, 'pg'),
        runtimeDir: folder,
        say: () => undefined,
        durable: false,
        endsWithUs: true,
      })
  const server = databaseServer ?? own!.url
  const name = `crash_${randomBytes(4).toString('hex')}`
  await query(server, `create database ${name}`)
  const outcomes: Outcome[] = []
  let clean = false
  const secrets = new Secrets()
  secrets.learn('the database’s password', new URL(server).password)
  try {
    const host = await testbed(join(folder, 'host'))
    const stage = await Stage.start(host, databaseNamed(server, name), folder)
    try {
      const plans = planned(host.spanMs)
      const sabotaged = sabotages.map((sabotage, at) => ({ plan: atOnce(plans.length + at), sabotage }))
      for (const { plan, sabotage } of [...plans.map((plan) => ({ plan, sabotage: undefined })), ...sabotaged]) {
        const outcome = await runTrial(stage, plan, sabotage)
        outcome.faults.push(...secrets.inLogFiles(folder))
        outcomes.push(outcome)
        tell?.(outcome)
      }
      await afterwards?.(stage)
      clean = outcomes.every(({ faults }) => faults.length === 0)
    } finally {
      await stage.close()
    }
    return outcomes
  } finally {
    await query(server, `drop database ${name} with (force)`)
    await own?.stop()
    if (clean || !keep) rmSync(folder, { recursive: true, force: true })
    else keep(folder)
  }
}

const atOnce = (trial: number): Plan => ({
  trial,
  victim: 'agent',
  failpoint: undefined,
  momentMs: 0,
  dropsCopies: false,
})

// `npm run bench`: the service beside its floors, in turn, in one run. Figures, no verdicts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readOrExit, UsageError } from '@dormouse/process/arguments'
import { endWithUs } from '../../scripts/testbed/end-with-us.ts'
import { startPostgres } from '../../scripts/testbed/postgres.ts'
import { identify } from '../../scripts/testbed/processes.ts'
import { fsyncMsIn } from './fsync.ts'
import { commitOf, machineOf } from './machine.ts'
import { RealStage } from './real.ts'
import { type Recorded, recordResults } from './results.ts'
import { Service, thisCheckout } from './service.ts'
import { showRows } from './show.ts'
import { countStatements } from './statements.ts'
import type { Sides, Subject } from './subject.ts'
import { creates } from './subjects/creates.ts'
import { durability } from './subjects/durability.ts'
import { events } from './subjects/events.ts'
import { failover } from './subjects/failover.ts'
import { firstWakes } from './subjects/first-wakes.ts'
import { guest } from './subjects/guest.ts'
import { memory } from './subjects/memory.ts'
import { moves } from './subjects/moves.ts'
import { names } from './subjects/names.ts'
import { neighbours } from './subjects/neighbours.ts'
import { operations } from './subjects/operations.ts'
import { power } from './subjects/power.ts'
import { readRates } from './subjects/reads.ts'
import { screens } from './subjects/screens.ts'
import { terminals } from './subjects/terminals.ts'
import { wakeOnUse } from './subjects/wake-on-use.ts'

const subjects: readonly Subject[] = [
  operations,
  durability,
  creates,
  readRates,
  names,
  memory,
  failover,
  events,
  power,
  wakeOnUse,
  firstWakes,
  guest,
  terminals,
  moves,
  screens,
  neighbours,
]

const help = `npm run bench [-- OPTIONS]

Measures the service beside its floors, in turn: floor, service, floor, service, and so on.

--simulated       only what needs no hypervisor; --real, only what runs on QEMU
--only NAME       only this subject; may be given more than once
--list            list the subjects and end
--quick           two short rounds
--rounds N        rounds of each measurement; 5 by default
--against FOLDER  measure another checkout of this repository too, in the same turns; its packages must be installed
--cpu-prof FOLDER write CPU profiles of the control plane and the hosts there, for Chrome’s DevTools
--record          write bench/results.json; \`npm run docs\` then writes docs/performance.md
--json            print the figures as JSON, and progress to stderr`

const { values } = readOrExit(() => {
  const given = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      list: { type: 'boolean' },
      only: { type: 'string', multiple: true },
      simulated: { type: 'boolean' },
      real: { type: 'boolean' },
      quick: { type: 'boolean' },
      rounds: { type: 'string' },
      against: { type: 'string' },
      'cpu-prof': { type: 'string' },
      record: { type: 'boolean' },
      json: { type: 'boolean' },
    },
  })
  const unknown = given.values.only?.find((name) => !subjects.some((subject) => subject.name === name))
  if (unknown) throw new UsageError(`--only ${unknown}: no such subject`)
  return given
})

if (values.help) console.log(help)
else if (values.list) for (const { name, what } of subjects) console.log(`${name.padEnd(12)} ${what}`)
else await main()

async function main(): Promise<void> {
  const chosen = subjects.filter(isChosen)
  const rounds = Number(values.rounds ?? (values.quick ? 2 : 5))
  const secondsEach = values.quick ? 1 : 2
  const say = values.json ? console.error : console.log
  say(`${chosen.map(({ name }) => name).join(', ')}: about ${estimate(chosen, rounds, secondsEach)}`)
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-bench-'))
  const fsyncMs = fsyncMsIn(folder)
  const dataDir = join(folder, 'pg')
  const postgres = await startPostgres({ dataDir, runtimeDir: folder, say, durable: true, endsWithUs: true })
  await countStatements(postgres)
  // Interrupted, it leaves no process and no folder behind.
  const unbind = endWithUs(identify(postgres.pid)!, 'SIGINT', folder)
  const place = { url: postgres.url, dataDir }
  const checkouts = { ours: thisCheckout, ...(values.against && { before: resolve(values.against) }) }
  const recorded: Recorded[] = []
  try {
    const machine = await machineOf(postgres.url, fsyncMs)
    const commit = await commitOf(checkouts.ours)
    const beforeCommit = checkouts.before && (await commitOf(checkouts.before))
    await using real = new RealStage()
    const sides = await startSides(checkouts, { postgres: place, folder })
    try {
      for (const { name, what, run } of chosen) {
        const date = new Date().toISOString()
        // The figures of the others stand without it.
        const rows = await run({ sides, postgres: place, rounds, secondsEach, folder, real, say }).catch((error) => {
          console.error(`${name} failed`, error)
          process.exitCode = 1
        })
        if (!rows) continue
        const commits = { ...(commit && { commit }), ...(beforeCommit && { beforeCommit }) }
        recorded.push({ subject: name, what, date, ...commits, machine, rows })
        if (!values.json) showRows(rows)
      }
    } finally {
      for (const service of Object.values(sides)) await service.stop()
    }
  } finally {
    await postgres.stop()
    unbind()
    rmSync(folder, { recursive: true, force: true })
  }
  if (values.json) console.log(JSON.stringify(recorded, null, 2))
  if (values.record)
    recordResults(
      recorded,
      subjects.map(({ name }) => name),
    )
}

function isChosen({ name, hosts }: Subject): boolean {
  if (values.only) return values.only.includes(name)
  return values.simulated === values.real || (hosts === 'simulated' ? values.simulated : values.real) === true
}

async function startSides(
  checkouts: { ours: string; before?: string },
  { postgres, folder }: { postgres: { url: string; dataDir: string }; folder: string },
): Promise<Sides> {
  const profiles = values['cpu-prof'] && resolve(values['cpu-prof'])
  const profiled = (name: string): Record<string, string> =>
    profiles ? { NODE_OPTIONS: `--cpu-prof --cpu-prof-dir=${join(profiles, name)}` } : {}
  const start = (side: string, checkout: string) =>
    Service.start({
      checkout,
      postgres,
      folder: join(folder, side),
      hosts: 2,
      settings: profiled(`${side}-control-plane`),
      agentSettings: profiled(`${side}-hosts`),
    })
  const ours = await start('ours', checkouts.ours)
  return { ours, ...(checkouts.before && { before: await start('before', checkouts.before) }) }
}

function estimate(chosen: readonly Subject[], rounds: number, secondsEach: number): string {
  const sides = values.against ? 1.8 : 1
  const seconds = chosen.reduce(
    (sum, { seconds: { fixed, perRound } }) => sum + fixed + (perRound * rounds * secondsEach) / 2,
    8,
  )
  return `${Math.ceil((seconds * sides) / 60)} min`
}

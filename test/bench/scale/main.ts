// `npm run bench:scale`: a real control plane, a real Postgres and many simulated hosts over real links, at several sizes.
// It shows how each cost grows. Figures, no verdicts.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { readOrExit, UsageError } from '@dormouse/process/arguments'
import { endWithUs } from '../../../scripts/testbed/end-with-us.ts'
import { startPostgres } from '../../../scripts/testbed/postgres.ts'
import { identify } from '../../../scripts/testbed/processes.ts'
import { fsyncMsIn } from '../fsync.ts'
import { commitOf, machineOf } from '../machine.ts'
import { recordScale, type ScaleRun } from '../results.ts'
import { Service, thisCheckout } from '../service.ts'
import { Fleet } from './fleet.ts'
import { idle } from './idle.ts'
import { leaderChange } from './leader-change.ts'
import { oneOperation } from './one-operation.ts'
import { wakeAll } from './operations.ts'
import { oneReturns, powerCut } from './power-cut.ts'
import { seed } from './seed.ts'
import type { Figures, ScaleSubject, Size } from './size.ts'
import { steady } from './steady.ts'
import { storm } from './storm.ts'
import { tableFigures } from './tables.ts'

/** In the order in which they run: the storm wakes what the later ones need awake, and the last one ends the leader. */
const subjects: readonly ScaleSubject[] = [storm, steady, idle, oneOperation, oneReturns, powerCut, leaderChange]
const tables = 'tables'
const names = [...subjects.map(({ name }) => name), tables]

const sizes: Size[] = [
  { hosts: 10, desktops: 100 },
  { hosts: 100, desktops: 1_000 },
  { hosts: 1_000, desktops: 20_000 },
]
const quickSizes: Size[] = [
  { hosts: 10, desktops: 100 },
  { hosts: 100, desktops: 1_000 },
]

const help = `npm run bench:scale [-- OPTIONS]

One control plane and simulated hosts at three sizes: ${sizes.map(sizeText).join('; ')}.
Its processes run without limits of rate, quota and connections.

--hosts N --desktops N   this size only
--only NAME       only this subject (${names.join(', ')}); may be given more than once. Every desktop is woken first
--quick           the first two sizes, shorter measurements, and smaller tables; about 5 min
--against FOLDER  measure that checkout of this repository instead; its packages must be installed
--record          write bench/results.json; \`npm run docs\` then writes docs/performance.md
--json            print the figures as JSON, and progress to stderr`

const { values } = readOrExit(() => {
  const given = parseArgs({
    options: {
      help: { type: 'boolean', short: 'h' },
      hosts: { type: 'string' },
      desktops: { type: 'string' },
      only: { type: 'string', multiple: true },
      quick: { type: 'boolean' },
      against: { type: 'string' },
      record: { type: 'boolean' },
      json: { type: 'boolean' },
    },
  })
  const unknown = given.values.only?.find((name) => !names.includes(name))
  if (unknown) throw new UsageError(`--only ${unknown}: no such subject`)
  return given
})

if (values.help) console.log(help)
else await main()

async function main(): Promise<void> {
  const say = values.json ? console.error : console.log
  const quick = values.quick ?? false
  say(`about ${values.quick || values.hosts || values.desktops ? 10 : 25} min`)
  const folder = mkdtempSync(join(tmpdir(), 'dormouse-scale-'))
  const fsyncMs = fsyncMsIn(folder)
  const dataDir = join(folder, 'pg')
  const postgres = await startPostgres({ dataDir, runtimeDir: folder, say, durable: true, endsWithUs: true })
  // Interrupted, it leaves no process and no folder behind.
  const unbind = endWithUs(identify(postgres.pid)!, 'SIGINT', folder)
  const place = { url: postgres.url, dataDir }
  const checkout = resolve(values.against ?? thisCheckout)
  const chosen = values.only ?? names
  try {
    const sized: ScaleRun['sizes'] = []
    for (const size of chosenSizes(quick)) {
      if (!chosen.some((name) => name !== tables)) break
      const figures = await measure(size, { checkout, postgres: place, folder, chosen, quick, say })
      sized.push({ ...size, figures })
    }
    const ofTables = chosen.includes(tables)
      ? await tableFigures({ checkout, postgres: place, folder, quick, say }).catch(failed(tables))
      : {}
    const commit = await commitOf(checkout)
    const run: ScaleRun = {
      date: new Date().toISOString(),
      ...(commit && { commit }),
      machine: await machineOf(postgres.url, fsyncMs),
      sizes: sized,
      tables: ofTables ?? {},
    }
    if (values.json) console.log(JSON.stringify(run, null, 2))
    else show(run)
    if (values.record) recordScale(run)
  } finally {
    await postgres.stop()
    unbind()
    rmSync(folder, { recursive: true, force: true })
  }
}

interface Setting {
  checkout: string
  postgres: { url: string; dataDir: string }
  folder: string
  chosen: readonly string[]
  quick: boolean
  say(line: string): void
}

async function measure(size: Size, { chosen, quick, say, ...given }: Setting): Promise<Record<string, Figures>> {
  const began = performance.now()
  const tell = (line: string) =>
    say(`${String(Math.round((performance.now() - began) / 1_000)).padStart(4)} s  ${line}`)
  say(`${sizeText(size)}: starting`)
  const service = await Service.start({ ...given, folder: join(given.folder, sizeText(size)), hosts: 0 })
  const fleet = new Fleet(service)
  const figures: Record<string, Figures> = {}
  try {
    const desktops = await seed(service, size.desktops)
    const hosts = await fleet.add('host', size.hosts, { DORMOUSE_AGENT_MEMORY_MIB: '1048576' })
    const stage = { service, size, fleet, hosts, desktops, quick, say: tell }
    for (const subject of subjects) {
      if (!chosen.includes(subject.name)) continue
      if (subject !== storm) await wakeAll(service, desktops, tell)
      tell(subject.name)
      const measured = await subject.run(stage).catch(failed(subject.name))
      if (!measured) continue
      figures[subject.name] = measured
      if (!values.json) console.table(rounded(measured))
    }
  } catch (error) {
    failed(sizeText(size))(error)
  } finally {
    await service.stop()
    fleet.remove()
  }
  return figures
}

/** The figures of the others stand without it. */
function failed(what: string) {
  return (error: unknown) => {
    console.error(`${what} failed`, error)
    process.exitCode = 1
  }
}

function chosenSizes(quick: boolean): Size[] {
  if (values.hosts || values.desktops)
    return [{ hosts: Number(values.hosts ?? 10), desktops: Number(values.desktops ?? 100) }]
  return quick ? quickSizes : sizes
}

function show(run: ScaleRun): void {
  for (const { name } of subjects) {
    const columns = run.sizes.filter(({ figures }) => figures[name])
    if (columns.length === 0) continue
    console.log(`\n${name}`)
    const measures = Object.keys(columns[0]!.figures[name]!)
    const row = (measure: string) =>
      Object.fromEntries(columns.map((size) => [sizeText(size), round(size.figures[name]![measure]!)]))
    console.table(Object.fromEntries(measures.map((measure) => [measure, row(measure)])))
  }
  if (Object.keys(run.tables).length > 0) {
    console.log(`\n${tables}`)
    console.table(Object.fromEntries(Object.entries(run.tables).map(([name, figures]) => [name, rounded(figures)])))
  }
}

function sizeText({ hosts, desktops }: Size): string {
  return `${hosts.toLocaleString('en')} hosts, ${desktops.toLocaleString('en')} desktops`
}

function round(value: number): number {
  return value >= 100 ? Math.round(value) : Number(value.toPrecision(3))
}

function rounded(figures: Figures): Figures {
  return Object.fromEntries(Object.entries(figures).map(([name, value]) => [name, round(value)]))
}

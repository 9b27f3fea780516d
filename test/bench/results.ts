// `bench/results.json`: the figures of the last recorded run, and when and on what they were measured. Subjects that a run
// leaves out keep their figures.
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Machine } from './machine.ts'
import type { Figures, Size } from './scale/size.ts'
import type { Row } from './subject.ts'

/** One run of some subjects. */
export interface Recorded {
  subject: string
  what: string
  date: string
  commit?: string
  /** The commit that it is compared with. */
  beforeCommit?: string
  machine: Machine
  rows: Row[]
}

/** One run of `npm run bench:scale`. */
export interface ScaleRun {
  date: string
  commit?: string
  machine: Machine
  sizes: (Size & { figures: Record<string, Figures> })[]
  tables: Record<string, Figures>
}

export interface Results {
  bench: Recorded[]
  scale?: ScaleRun
}

export const resultsFile = fileURLToPath(new URL('../../bench/results.json', import.meta.url))

export function readResults(): Results {
  return existsSync(resultsFile) ? (JSON.parse(readFileSync(resultsFile, 'utf8')) as Results) : { bench: [] }
}

/** Replaces the subjects that were measured, in the order given. */
export function recordResults(measured: Recorded[], order: readonly string[]): void {
  const results = readResults()
  const bySubject = new Map([...results.bench, ...measured].map((recorded) => [recorded.subject, recorded]))
  write({ ...results, bench: order.flatMap((subject) => bySubject.get(subject) ?? []) })
}

export function recordScale(scale: ScaleRun): void {
  write({ ...readResults(), scale })
}

function write(results: Results): void {
  mkdirSync(dirname(resultsFile), { recursive: true })
  writeFileSync(resultsFile, `${JSON.stringify(results, null, 2)}\n`)
}

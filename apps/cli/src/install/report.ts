// What an installation prints: the table of checks, a line per step, and one document for programs.
import { printable, table } from '../terminal.ts'
import type { Check } from './checks.ts'

export interface Step {
  name: string
  /** `ok`: it only looked. */
  result: 'changed' | 'unchanged' | 'ok'
  detail?: string
}

/** The report of one host. */
export interface Report {
  target: string
  host_id: string | null
  name: string | null
  outcome: 'checked' | 'blocked' | 'installed' | 'unchanged' | 'uninstalled'
  checks: Check[]
  steps: Step[]
  duration_ms: number
}

/** The checks as a table, with what to do below it. */
export function checksTable(checks: readonly Check[]): string {
  const rows = checks.map(({ name, result, detail }) => [name, result, detail.slice(0, 160)])
  const next = checks.filter((check) => check.remedy).map((check) => `${check.name}: ${printable(check.remedy!)}\n`)
  return table(['CHECK', 'RESULT', 'FOUND'], rows) + (next.length > 0 ? `\n${next.join('')}` : '')
}

/** One step in one line. */
export function stepLine({ name, result, detail }: Step): string {
  return `${name}: ${result}${detail ? ` (${detail.slice(0, 300)})` : ''}`
}

/** Several things that changed, shortened. */
export function shortened(names: readonly string[]): string {
  return names.length > 5 ? `${names.slice(0, 5).join(', ')} and ${names.length - 5} more` : names.join(', ')
}

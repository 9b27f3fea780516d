// The tables of the page: one per subject of the benchmarks. Pure.
import type { Recorded, ScaleRun } from '../../../test/bench/results.ts'
import type { Spread } from '../../../test/bench/statistics.ts'
import type { Row } from '../../../test/bench/subject.ts'
import { table } from '../markdown.ts'

type Titled = [title: string, cell: (row: Row) => string]

/** Columns that no row fills are left out. */
export function subjectTable({ rows }: Recorded): string {
  const columns: Titled[] = [
    ['', ({ name, unit }) => `${name}, ${unit}`],
    ['floor', ({ figures, floor }) => (figures.floor ? `${spread(figures.floor)}${floor ? ` ${floor}` : ''}` : '')],
    ['before', ({ figures }) => spread(figures.before)],
    ['now', ({ figures }) => (figures.ours ? `**${spread(figures.ours)}**` : '')],
    ['before ÷ floor', ({ ratio }) => ratioText(ratio?.before, ratio?.kind)],
    ['now ÷ floor', ({ ratio }) => ratioText(ratio?.value, ratio?.kind)],
    ['goal', ({ goal, ratio }) => goalText(goal, ratio?.kind)],
    ['CPU, µs', ({ cpuUs }) => cpuText(cpuUs?.ours)],
  ]
  const filled = columns.filter(([, cell]) => rows.some((row) => cell(row) !== ''))
  return table(
    filled.map(([title]) => title),
    rows.map((row) => filled.map(([, cell]) => cell(row))),
  )
}

/** The figures of one subject, a column per size. */
export function scaleTable({ sizes }: ScaleRun, subject: string): string {
  const measured = sizes.filter(({ figures }) => figures[subject])
  const names = Object.keys(measured[0]?.figures[subject] ?? {})
  const cell = (value: number | undefined) => (value === undefined ? '' : number(value))
  return table(
    ['', ...measured.map(sizeText)],
    names.map((name) => [name, ...measured.map(({ figures }) => cell(figures[subject]![name]))]),
  )
}

/** The hot paths on empty and on large tables. */
export const largeTables = ({ tables }: ScaleRun): string =>
  table(
    ['', 'empty tables', 'large tables', 'cost on large tables'],
    Object.entries(tables).map(([name, { empty = 0, full = 0, cost = 0 }]) => [
      name,
      number(empty),
      number(full),
      `× ${number(cost)}`,
    ]),
  )

const sizeText = ({ hosts, desktops }: { hosts: number; desktops: number }): string =>
  `${hosts.toLocaleString('en')} hosts, ${desktops.toLocaleString('en')} desktops`

function spread(figure: Spread | undefined): string {
  if (!figure) return ''
  const { median, min, max, rounds } = figure
  return rounds === 1 || min === max ? number(median) : `${number(median)} (${number(min)}–${number(max)})`
}

function ratioText(value: number | undefined, kind: 'share' | 'multiple' | undefined): string {
  if (value === undefined) return ''
  return kind === 'multiple' ? `${number(value)} × its cost` : `${number(value)} of its rate`
}

function goalText(goal: Row['goal'], kind: 'share' | 'multiple' | undefined): string {
  const { figure, ratio } = goal ?? {}
  const parts = [figure === undefined ? '' : number(figure), ratioText(ratio, kind)]
  return parts.filter(Boolean).join('; ')
}

function cpuText(cpu: Record<string, number> | undefined): string {
  return Object.entries(cpu ?? {})
    .map(([name, us]) => `${name} ${number(us)}`)
    .join(', ')
}

/** Three digits that matter, and thousands in groups. */
const number = (value: number): string =>
  Math.abs(value) >= 100
    ? Math.round(value).toLocaleString('en')
    : String(Number(value.toPrecision(Math.abs(value) >= 10 ? 3 : 2)))

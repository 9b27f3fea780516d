// Prints rows as a table for a terminal.
import type { Spread } from './statistics.ts'
import type { Row, Side } from './subject.ts'

/** One line per row; columns that no row fills are left out. */
export function showRows(rows: readonly Row[]): void {
  const table = Object.fromEntries(rows.map((row) => [`${row.name} (${row.unit})`, columnsOf(row)]))
  console.table(table)
  for (const row of rows) if (row.cpuUs) console.log(`CPU µs, ${row.name}: ${cpuText(row.cpuUs)}`)
}

function columnsOf({ figures, ratio, goal }: Row): Record<string, string> {
  const sides = (['floor', 'before', 'ours'] as const).filter((side) => figures[side])
  return {
    ...Object.fromEntries(sides.map((side) => [side, spreadText(figures[side]!)])),
    ...(ratio?.before !== undefined && { 'before ÷ floor': ratioText(ratio.kind, ratio.before) }),
    ...(ratio && { 'ours ÷ floor': ratioText(ratio.kind, ratio.value) }),
    ...(goal && { goal: goalText(goal.figure, goal.ratio, ratio?.kind) }),
  }
}

const spreadText = ({ median, min, max, rounds }: Spread): string =>
  rounds === 1 ? number(median) : `${number(median)} (${number(min)}–${number(max)})`

const ratioText = (kind: 'share' | 'multiple', value: number) => (kind === 'share' ? `${value}` : `costs ${value}`)

function goalText(figure: number | undefined, ratio: number | undefined, kind: 'share' | 'multiple' = 'share'): string {
  const parts = [figure === undefined ? '' : number(figure), ratio === undefined ? '' : ratioText(kind, ratio)]
  return parts.filter(Boolean).join(', ')
}

const number = (value: number): string =>
  value >= 100 ? Math.round(value).toLocaleString('en') : String(Number(value.toPrecision(3)))

function cpuText(cpuUs: NonNullable<Row['cpuUs']>): string {
  const sides = Object.entries(cpuUs) as [Side, Record<string, number>][]
  return sides
    .map(
      ([side, of]) =>
        `${side}: ${Object.entries(of)
          .map(([name, us]) => `${name} ${number(us)}`)
          .join(', ')}`,
    )
    .join('; ')
}

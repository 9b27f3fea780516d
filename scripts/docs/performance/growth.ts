// Small plots side by side, each of one figure over the sizes of an installation. Pure.
import { number } from './numbers.ts'
import { circle, inner, line, path, svg, text } from './svg.ts'

export interface Growth {
  label: string
  /** One value per size. */
  values: readonly number[]
  goal?: number | undefined
}

const columns = 3
const cell = { width: (inner.right - inner.left) / columns, height: 172 }
const plot = { left: 14, right: 22, top: 44, bottom: 30 }

/** The sizes are drawn at equal distances; each plot has its own scale, which begins at zero. */
export function growths(
  title: string,
  notes: readonly string[],
  sizes: readonly string[],
  all: readonly Growth[],
): string {
  const rows = Math.ceil(all.length / columns)
  const body = all
    .map((growth, at) => {
      const x = inner.left + (at % columns) * cell.width
      const y = Math.floor(at / columns) * cell.height
      return `<g transform="translate(${x} ${y})">\n${drawOne(growth, sizes)}\n</g>`
    })
    .join('\n')
  return svg({ title, notes, height: rows * cell.height, body })
}

function drawOne({ label, values, goal }: Growth, sizes: readonly string[]): string {
  const [left, right] = [plot.left, cell.width - plot.right]
  const [top, bottom] = [plot.top, cell.height - plot.bottom]
  const largest = Math.max(...values, goal ?? 0, Number.EPSILON)
  const x = (at: number) => left + 14 + (at * (right - left - 28)) / Math.max(1, values.length - 1)
  const y = (value: number) => bottom - (value / largest) * (bottom - top)
  const points = values.map((value, at): [number, number] => [x(at), y(value)])
  return [
    text(0, 16, label),
    line(left, bottom, right, bottom, 'grid'),
    ...(goal === undefined ? [] : [line(left, y(goal), right, y(goal), 'goal')]),
    path(points, 'ours line'),
    ...points.map(([px, py]) => circle(px, py, 'ours bar')),
    ...values.map((value, at) => text(x(at), y(value) - 9, number(value), 'value', 'middle')),
    ...sizes.map((size, at) => text(x(at), bottom + 17, size, 'muted', 'middle')),
  ].join('\n')
}

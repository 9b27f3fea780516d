// Horizontal bars, one group per figure: the service, the commit that it is compared with, and the goal. Pure.
import { number } from './numbers.ts'
import { inner, line, rect, svg, text } from './svg.ts'

export interface BarGroup {
  label: string
  ours: number
  before?: number | undefined
  goal?: number | undefined
}

const barHeight = 16
const barGap = 4
const groupGap = 20
const labelWidth = 250
const valueWidth = 60

/** All groups share one scale, which begins at zero. */
export function bars(title: string, notes: readonly string[], groups: readonly BarGroup[]): string {
  const largest = Math.max(...groups.flatMap(({ ours, before = 0, goal = 0 }) => [ours, before, goal]))
  const left = inner.left + labelWidth
  const scale = (inner.right - valueWidth - left) / largest
  let top = 0
  const drawn = groups.map((group) => {
    const height = heightOf(group)
    const body = drawGroup(group, { top, height, left, scale })
    top += height + groupGap
    return body
  })
  return svg({ title, notes, height: top - groupGap, body: drawn.join('\n') })
}

const barsOf = ({ ours, before }: BarGroup) => [
  ...(before === undefined ? [] : [{ kind: 'before', value: before }]),
  { kind: 'ours', value: ours },
]

const heightOf = (group: BarGroup): number => barsOf(group).length * (barHeight + barGap) - barGap

function drawGroup(group: BarGroup, { top, height, left, scale }: Record<'top' | 'height' | 'left' | 'scale', number>) {
  const middle = top + height / 2 + 4
  const parts = [text(inner.left, middle, group.label), line(left, top - 4, left, top + height + 4, 'grid')]
  for (const [at, { kind, value }] of barsOf(group).entries()) {
    const y = top + at * (barHeight + barGap)
    parts.push(rect(left, y, Math.max(1, value * scale), barHeight, `${kind} bar`))
    parts.push(text(left + value * scale + 8, y + 12.5, number(value), kind === 'ours' ? 'value' : 'muted'))
  }
  if (group.goal !== undefined) {
    const x = left + group.goal * scale
    parts.push(line(x, top - 5, x, top + height + 5, 'goal'))
  }
  return parts.join('\n')
}

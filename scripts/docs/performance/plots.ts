// The plots of docs/performance.md, made from the recorded figures. Pure.
import type { Results, ScaleRun } from '../../../test/bench/results.ts'
import type { Row } from '../../../test/bench/subject.ts'
import { type BarGroup, bars } from './bars.ts'
import { type Growth, growths } from './growth.ts'

const legend = (compared: boolean) =>
  `Blue: this commit.${compared ? ' Grey: the commit that it is compared with.' : ''} Green: the goal.`

/** How many times its floor's cost an operation has. */
export function operationsPlot({ bench }: Results): string {
  const groups = bench
    .flatMap(({ rows }) => rows)
    .filter(({ ratio, subject }) => ratio?.kind === 'multiple' && subject === 'operations')
    .map(groupOf)
  return bars(
    'One operation, in plain transactions',
    ['How many two-statement transactions fit in its time. Less is better.', legend(isCompared(groups))],
    groups,
  )
}

/** What part of its floor's rate each read and create reaches. */
export function sharesPlot({ bench }: Results): string {
  const groups = bench
    .flatMap(({ rows }) => rows)
    .filter(({ ratio, subject }) => ratio?.kind === 'share' && ['reads', 'creates'].includes(subject))
    .map(groupOf)
  return bars(
    'Reads and creates, as a part of their floor’s rate',
    ['1 is as fast as bare Fastify or bare pg. More is better.', legend(isCompared(groups))],
    groups,
  )
}

/** What one operation writes. */
export function writesPlot({ bench }: Results): string {
  const groups = bench
    .flatMap(({ rows }) => rows)
    .filter(({ subject }) => subject === 'durability')
    .map(({ name, figures, goal }) => ({
      label: name.replace(' of one operation', ''),
      ours: figures.ours!.median,
      before: figures.before?.median,
      goal: goal?.figure,
    }))
  return bars(
    'What one operation writes',
    ['Counts; the mean of wake and hibernate. Less is better.', legend(isCompared(groups))],
    groups,
  )
}

const panels: { label: string; subject: string; measure: string; goal?: number }[] = [
  { label: 'Storm: settled per second', subject: 'storm', measure: 'settled per second', goal: 400 },
  { label: 'Storm: control plane CPU, ms', subject: 'storm', measure: 'control plane, CPU ms each' },
  { label: 'One operation: p50, ms', subject: 'one', measure: 'p50, ms' },
  {
    label: 'Idle: control plane, % of a core',
    subject: 'steady',
    measure: 'idle: control plane, % of a core',
    goal: 100,
  },
  { label: 'Reads under load: p99, ms', subject: 'steady', measure: 'read p99, ms', goal: 25 },
  { label: 'Control plane, MiB', subject: 'steady', measure: 'control plane, MiB', goal: 600 },
]

/** How costs grow with the installation. */
export function scalePlot(scale: ScaleRun): string {
  const sizes = scale.sizes.map(({ desktops }) => desktops.toLocaleString('en'))
  const all = panels.map(
    ({ label, subject, measure, goal }): Growth => ({
      label,
      values: scale.sizes.map(({ figures }) => figures[subject]?.[measure] ?? 0),
      goal,
    }),
  )
  const hosts = scale.sizes.map((size) => size.hosts.toLocaleString('en')).join('; ')
  return growths(
    'Cost by size of the installation',
    [`Each plot: ${sizes.join('; ')} desktops on ${hosts} hosts, from left to right.`, 'Green: the goal.'],
    sizes,
    all,
  )
}

const groupOf = ({ name, ratio, goal }: Row): BarGroup => ({
  label: name,
  ours: ratio!.value,
  before: ratio?.before,
  goal: goal?.ratio,
})

const isCompared = (groups: readonly BarGroup[]): boolean => groups.some(({ before }) => before !== undefined)

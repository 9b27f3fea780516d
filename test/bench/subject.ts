// What a benchmark is: measurements of the service beside their floor, taken in turn. Does not know any subject.
import type { RealStage } from './real.ts'
import type { Service } from './service.ts'
import type { Spread } from './statistics.ts'
import { spreadOf } from './statistics.ts'

/** Who is measured: the service, another checkout of it, or the least that can do the same. */
export type Side = 'ours' | 'before' | 'floor'

export interface Row {
  subject: string
  name: string
  /** What the figures count, such as `per second`. */
  unit: string
  better: 'more' | 'less'
  figures: Partial<Record<Side, Spread>>
  /** What the floor is. */
  floor?: string
  /**
   * `share`: our rate divided by the floor's; `multiple`: how many times the floor's cost ours is. The median of the
   * rounds' own ratios.
   */
  ratio?: { kind: 'share' | 'multiple'; value: number; before?: number }
  goal?: Goal
  /** CPU time of one operation or request, in µs, by process. */
  cpuUs?: Partial<Record<Side, Record<string, number>>>
}

/** The least or the most that a figure or a ratio should be. */
export interface Goal {
  figure?: number
  ratio?: number
}

/** The checkouts that are measured, each with its own database on one Postgres. */
export type Sides = { ours: Service; before?: Service }

export interface Bench {
  sides: Sides
  postgres: { url: string; dataDir: string }
  /** Rounds of each measurement; each side is measured once in each. */
  rounds: number
  /** How long one measurement of one side takes. */
  secondsEach: number
  folder: string
  real: RealStage
  say(line: string): void
}

export interface Subject {
  name: string
  /** One sentence, for `--list` and the page. */
  what: string
  /** Runs on simulated hosts, or on real QEMU. */
  hosts: 'simulated' | 'real'
  /** About how long it takes with one checkout: seconds per round, and besides. */
  seconds: { fixed: number; perRound: number }
  run(bench: Bench): Promise<Row[]>
}

/** One measurement of one side: named values, such as `{ rate: 70, p50: 206 }`. */
export type Measured = Record<string, number>
export type Measure = () => Promise<Measured>

/** All values of all rounds, by side. */
export type Rounds = Partial<Record<Side, Measured[]>>

/** Measures each side once per round, always in the same order: A B A B. */
export async function alternate(rounds: number, measures: Partial<Record<Side, Measure>>): Promise<Rounds> {
  const taken: Rounds = {}
  for (let round = 0; round < rounds; round++)
    for (const [side, measure] of Object.entries(measures) as [Side, Measure][]) {
      taken[side] ??= []
      taken[side].push(await measure())
    }
  return taken
}

/** The measures of every checkout, and of the floor, if any. */
export function eachSide(
  sides: Sides,
  measure: (service: Service) => Promise<Measured>,
  floor?: Measure,
): Partial<Record<Side, Measure>> {
  const { before } = sides
  return {
    ...(floor && { floor }),
    ...(before && { before: () => measure(before) }),
    ours: () => measure(sides.ours),
  }
}

type RowOf = Omit<Row, 'figures' | 'ratio' | 'cpuUs'> & {
  /** The measured value that the row shows. */
  of: string
  /** The floor's value of another name. */
  floorOf?: string
  ratioKind?: 'share' | 'multiple'
}

/** A row of these rounds. Values named `cpu …` are shown with it. */
export function rowOf(taken: Rounds, { of, floorOf = of, ratioKind, ...rest }: RowOf): Row {
  const named = (side: Side) => (side === 'floor' ? floorOf : of)
  const values = (side: Side) => taken[side]?.map((measured) => measured[named(side)]!)
  const sides = (Object.keys(taken) as Side[]).filter((side) => values(side)?.[0] !== undefined)
  const figures = Object.fromEntries(sides.map((side) => [side, spreadOf(values(side)!)]))
  const cpuUs = Object.fromEntries(sides.flatMap((side) => cpuOf(side, taken[side]!)))
  const kind = ratioKind
  const ratio = kind && ratioOf(values('ours'), values('floor'), rest.better, kind)
  const earlier = kind && ratioOf(values('before'), values('floor'), rest.better, kind)
  return {
    ...rest,
    figures,
    ...(ratio !== undefined && {
      ratio: { kind: kind!, value: ratio, ...(earlier !== undefined && { before: earlier }) },
    }),
    ...(Object.keys(cpuUs).length > 0 && { cpuUs }),
  }
}

function cpuOf(side: Side, rounds: Measured[]): [Side, Record<string, number>][] {
  const names = Object.keys(rounds[0]!).filter((name) => name.startsWith('cpu '))
  if (names.length === 0) return []
  const middle = (name: string) => Math.round(spreadOf(rounds.map((measured) => measured[name]!)).median)
  return [[side, Object.fromEntries(names.map((name) => [name.slice(4), middle(name)]))]]
}

function ratioOf(
  ours: number[] | undefined,
  floor: number[] | undefined,
  better: Row['better'],
  kind: 'share' | 'multiple',
): number | undefined {
  if (!ours || !floor) return undefined
  const cost = (round: number) => (better === 'more' ? floor[round]! / ours[round]! : ours[round]! / floor[round]!)
  const { median } = spreadOf(ours.map((_, round) => (kind === 'multiple' ? cost(round) : 1 / cost(round))))
  return Number(median.toPrecision(3))
}

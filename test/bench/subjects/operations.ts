// Whole operations, on simulated hosts: wake and hibernate by turns, each awaited, with 1, 16 and 48 callers.
import { startTransactions } from '../floors/transactions.ts'
import { load } from '../load.ts'
import type { Service } from '../service.ts'
import { percentile } from '../statistics.ts'
import {
  alternate,
  eachSide,
  type Goal,
  type Measured,
  type Rounds,
  type Row,
  rowOf,
  type Subject,
} from '../subject.ts'
import { cpuOver } from '../used-cpu.ts'

const counts = [1, 16, 48]
const goals: Record<number, { rate: Goal; latency?: Goal; cost: Goal }> = {
  1: { rate: {}, latency: { figure: 6 }, cost: {} },
  16: { rate: { figure: 400 }, cost: { ratio: 8 } },
  48: { rate: { figure: 500 }, cost: { ratio: 7 } },
}
/** A side needs longer than the floor: its operations are slower, and their latencies vary more. */
const floorShare = 0.5
/** Code that has not run often is compiled late: without a warm-up, a host's share is twice as large. In rounds. */
const warmUpRounds = 4

export const operations: Subject = {
  name: 'operations',
  what: 'wake and hibernate by turns on simulated hosts, 1, 16 and 48 at once, beside plain two-statement transactions',
  hosts: 'simulated',
  seconds: { fixed: 20, perRound: 12 },
  run: async (bench) => {
    const floor = await startTransactions(bench.postgres)
    const desktops = new Map<Service, string[]>()
    for (const service of Object.values(bench.sides)) desktops.set(service, await service.create(Math.max(...counts)))
    const rows: Row[] = []
    try {
      for (const [service, ids] of desktops)
        await wakesAndHibernations(service, ids.slice(0, 16), bench.secondsEach * warmUpRounds)
      bench.say('operations: warm')
      for (const callers of counts) {
        const measure = (service: Service) =>
          wakesAndHibernations(service, desktops.get(service)!.slice(0, callers), bench.secondsEach)
        const bare = () => floor.measure('two', callers, bench.secondsEach * floorShare)
        rows.push(...rowsOf(callers, await alternate(bench.rounds, eachSide(bench.sides, measure, bare))))
        bench.say(`operations, ${callers} at once: done`)
      }
    } finally {
      await floor.stop()
    }
    return rows
  },
}

function rowsOf(callers: number, taken: Rounds): Row[] {
  const atOnce = callers === 1 ? 'one at a time' : `${callers} at once`
  const floor = 'two-statement transactions'
  const { rate, latency, cost } = goals[callers]!
  const common = { subject: 'operations', floor }
  const latencies = ['wake', 'hibernate'].map((verb) =>
    rowOf(withoutCpu(taken), {
      ...common,
      name: `${verb}, ${atOnce}`,
      unit: 'ms, p50',
      better: 'less',
      of: verb,
      floorOf: 'p50',
      ...(latency && { goal: latency }),
    }),
  )
  const rates = rowOf(taken, {
    ...common,
    name: `wake and hibernate, ${atOnce}`,
    unit: 'per second',
    better: 'more',
    of: 'rate',
    ratioKind: 'multiple',
    goal: { ...rate, ...cost },
  })
  return [...latencies, rates]
}

/** CPU time is that of a wake and a hibernate together: it is shown once, with their rate. */
function withoutCpu(taken: Rounds): Rounds {
  const without = (measured: Measured) =>
    Object.fromEntries(Object.entries(measured).filter(([name]) => !name.startsWith('cpu ')))
  return Object.fromEntries(Object.entries(taken).map(([side, all]) => [side, all.map(without)]))
}

/** Each caller wakes its desktop and hibernates it, again and again. */
async function wakesAndHibernations(service: Service, desktops: string[], seconds: number): Promise<Measured> {
  const times = { wake: [] as number[], hibernate: [] as number[] }
  const connections = desktops.map(() => service.connect())
  const ask = async (verb: 'wake' | 'hibernate', caller: number) => {
    const began = performance.now()
    const { status, body } = await connections[caller]!.send(
      'POST',
      `/v1/desktops/${desktops[caller]}/${verb}?wait=true`,
    )
    if (status !== 200) throw new Error(`${verb}: ${status} ${body}`)
    times[verb].push(performance.now() - began)
  }
  const { value, cpuUsEach } = await cpuOver(
    service,
    async () =>
      load(desktops.length, seconds, async (caller) => {
        await ask('wake', caller)
        await ask('hibernate', caller)
      }),
    ({ count }) => count * 2,
  )
  for (const connection of connections) connection.close()
  return {
    rate: value.rate * 2,
    wake: percentile(times.wake, 0.5),
    hibernate: percentile(times.hibernate, 0.5),
    p99: percentile(times.wake, 0.99),
    ...cpuUsEach,
  }
}

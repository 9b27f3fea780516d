// Creates, 16 at once, beside transactions of five statements on the same Postgres.
import { startTransactions } from '../floors/transactions.ts'
import { load } from '../load.ts'
import type { Service } from '../service.ts'
import { alternate, eachSide, type Measured, rowOf, type Subject } from '../subject.ts'
import { cpuOver } from '../used-cpu.ts'

const callers = 16

export const creates: Subject = {
  name: 'creates',
  what: 'creates, 16 at once, beside five-statement transactions',
  hosts: 'simulated',
  seconds: { fixed: 1, perRound: 4 },
  run: async (bench) => {
    const floor = await startTransactions(bench.postgres)
    try {
      const bare = () => floor.measure('five', callers, bench.secondsEach)
      const measure = (service: Service) => createsOf(service, bench.secondsEach)
      const taken = await alternate(bench.rounds, eachSide(bench.sides, measure, bare))
      const row = { subject: 'creates', name: 'create, 16 at once', unit: 'per second', better: 'more' } as const
      const of = { of: 'rate', ratioKind: 'share', goal: { ratio: 0.85 } } as const
      return [rowOf(taken, { ...row, ...of, floor: 'five-statement transactions' })]
    } finally {
      await floor.stop()
    }
  },
}

async function createsOf(service: Service, seconds: number): Promise<Measured> {
  const connections = Array.from({ length: callers }, () => service.connect())
  const one = async (caller: number) => {
    const { status, body } = await connections[caller]!.send('POST', '/v1/desktops', '{"tier":"small"}')
    if (status !== 201) throw new Error(`create: ${status} ${body}`)
  }
  const { value, cpuUsEach } = await cpuOver(
    service,
    () => load(callers, seconds, one),
    ({ count }) => count,
  )
  for (const connection of connections) connection.close()
  delete cpuUsEach['cpu hosts']
  return { rate: value.rate, p50: value.p50, p99: value.p99, ...cpuUsEach }
}

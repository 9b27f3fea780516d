// Reads over 16 connections, and lists of 100 and 1,000, beside bare Fastify with `pg` on the same rows.
import type { Connection } from '../connection.ts'
import { postgresCpuMs } from '../cpu.ts'
import { type HttpFloor, startHttpFloor } from '../floors/http-floor.ts'
import { load } from '../load.ts'
import type { Service } from '../service.ts'
import { alternate, type Bench, eachSide, type Measured, type Row, rowOf, type Subject } from '../subject.ts'
import { cpuOver } from '../used-cpu.ts'

const goal = { ratio: 0.85 }

interface Read {
  name: string
  connections: number
  /** Paths of the service and of the floor. */
  ours(id: string): string
  floor(id: string): string
}

const reads: Read[] = [
  {
    name: 'GET of one, key, 16 connections',
    connections: 16,
    ours: (id) => `/v1/desktops/${id}`,
    floor: (id) => `/desktops/${id}`,
  },
  ...[100, 1_000].map((limit) => ({
    name: `list of ${limit.toLocaleString('en')}`,
    connections: 4,
    ours: () => `/v1/desktops?limit=${limit}`,
    floor: () => `/desktops?limit=${limit}`,
  })),
]

export const readRates: Subject = {
  name: 'reads',
  what: 'GET of one desktop over 16 connections and lists of 100 and 1,000 over 4, beside bare Fastify with pg',
  hosts: 'simulated',
  seconds: { fixed: 5, perRound: 12 },
  run: async (bench) => {
    const ids = new Map<Service, string>()
    for (const service of Object.values(bench.sides)) {
      const made = await service.create(1_000)
      ids.set(service, made[500]!)
      // As autovacuum does within a minute: without statistics, the planner sorts the whole list for each page.
      await service.database.query('analyze desktops')
    }
    const floor = await startHttpFloor(bench.sides.ours.databaseUrl, bench.folder)
    const rows: Row[] = []
    try {
      for (const read of reads) {
        const measure = (service: Service) => ours(service, read, ids.get(service)!, bench.secondsEach)
        const bare = () => bareRead(floor, read, ids.get(bench.sides.ours)!, bench)
        const taken = await alternate(bench.rounds, eachSide(bench.sides, measure, bare))
        const row = { subject: 'reads', name: read.name, unit: 'per second', better: 'more', floor: 'Fastify with pg' }
        rows.push(rowOf(taken, { ...row, better: 'more', of: 'rate', ratioKind: 'share', goal }))
        bench.say(`${read.name}: done`)
      }
    } finally {
      await floor.stop()
    }
    return rows
  },
}

async function ours(service: Service, read: Read, id: string, seconds: number): Promise<Measured> {
  const connections = Array.from({ length: read.connections }, () => service.connect())
  const { value, cpuUsEach } = await cpuOver(
    service,
    () => load(connections.length, seconds, (caller) => get(connections[caller]!, read.ours(id))),
    ({ count }) => count,
  )
  for (const connection of connections) connection.close()
  // The hosts have no part in a read.
  delete cpuUsEach['cpu hosts']
  return { rate: value.rate, p50: value.p50, p99: value.p99, ...cpuUsEach }
}

async function get(connection: Connection, path: string): Promise<void> {
  const { status, body } = await connection.send('GET', path)
  if (status !== 200) throw new Error(`GET ${path}: ${status} ${body.slice(0, 200)}`)
}

/** Requests to the floor, on the database of our service. */
async function bareRead(floor: HttpFloor, read: Read, id: string, { postgres, secondsEach }: Bench): Promise<Measured> {
  const connections = Array.from({ length: read.connections }, () => floor.connect())
  const used = () => ({ node: floor.cpuMs(), postgres: postgresCpuMs(postgres.dataDir) })
  const before = used()
  const { rate, p50, p99, count } = await load(connections.length, secondsEach, (caller) =>
    get(connections[caller]!, read.floor(id)),
  )
  const after = used()
  for (const connection of connections) connection.close()
  return {
    rate,
    p50,
    p99,
    'cpu Fastify': ((after.node - before.node) * 1_000) / count,
    'cpu Postgres': ((after.postgres - before.postgres) * 1_000) / count,
  }
}

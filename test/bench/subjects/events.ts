// The log of events: how long until a client sees one, at the replica that has committed it and at another; what a thousand
// idle streams cost; and how many events one replica passes on.

import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { createClient, type EventJson } from '@dormouse/client'
import { waitFor } from '../../wait-for.ts'
import { residentMiB } from '../cpu.ts'
import { load } from '../load.ts'
import type { Service } from '../service.ts'
import { percentile, spreadOf } from '../statistics.ts'
import { type Measured, type Rounds, type Row, rowOf, type Subject } from '../subject.ts'
import { cpuOver } from '../used-cpu.ts'

const idleStreams = 1_000
const burst = 20_000
const settleMs = 2_000

export const events: Subject = {
  name: 'events',
  what: 'how long after the response to a request its event is at a client of the same replica, and of another; 1,000 idle streams; a burst',
  hosts: 'simulated',
  seconds: { fixed: 40, perRound: 10 },
  run: async ({ sides: { ours }, rounds, secondsEach, say }) => {
    const standby = await ours.startStandby()
    const taken: Rounds = { ours: [] }
    for (let round = 0; round < rounds; round++) {
      const [here, there] = [await delays(ours, ours.url, secondsEach), await delays(ours, standby, secondsEach)]
      taken.ours!.push({ ...named('here', here), ...named('there', there) })
    }
    say('events: delays measured')
    const idle = await withIdleStreams(ours, rounds, secondsEach)
    say('events: idle streams measured')
    const rate = await burstRate(ours)
    const row = { subject: 'events', better: 'less' } as const
    return [
      rowOf(taken, { ...row, name: 'response to event, same replica', unit: 'ms, p50', of: 'here p50' }),
      rowOf(taken, {
        ...row,
        name: 'response to event, same replica',
        unit: 'ms, p99',
        of: 'here p99',
        goal: { figure: 20 },
      }),
      rowOf(taken, { ...row, name: 'response to event, other replica', unit: 'ms, p50', of: 'there p50' }),
      rowOf(taken, {
        ...row,
        name: 'response to event, other replica',
        unit: 'ms, p99',
        of: 'there p99',
        goal: { figure: 100 },
      }),
      ...idle,
      { ...row, name: 'events to one client', unit: 'per second', better: 'more', figures: { ours: spreadOf([rate]) } },
    ]
  },
}

const named = (where: string, measured: Measured): Measured =>
  Object.fromEntries(Object.entries(measured).map(([name, value]) => [`${where} ${name}`, value]))

/** How long after the response to a create its event arrives at a client; 0 if it is there first. */
async function delays(service: Service, url: string, seconds: number): Promise<Measured> {
  const stop = new AbortController()
  const [cursors, taken]: [string[], number[]] = [[], []]
  const arrived = new Map<string, PromiseWithResolvers<number>>()
  const arrivalOf = (id: string) => {
    const arrival = arrived.get(id) ?? Promise.withResolvers<number>()
    arrived.set(id, arrival)
    return arrival
  }
  const client = createClient({ baseUrl: url, apiKey: service.org.key })
  const options = { signal: stop.signal, onCursor: (cursor: string) => void cursors.push(cursor) }
  const followed = (async () => {
    for await (const { desktop_id } of client.events(options)) arrivalOf(desktop_id!).resolve(performance.now())
  })()
  await waitFor('the stream', () => cursors.length > 0)
  const connection = service.connect()
  await load(1, seconds, async () => {
    const { body } = await connection.send('POST', '/v1/desktops', '{"tier":"small"}')
    const responded = performance.now()
    taken.push(Math.max(0, (await arrivalOf((JSON.parse(body) as { id: string }).id).promise) - responded))
  })
  connection.close()
  stop.abort()
  await followed
  return { p50: percentile(taken, 0.5), p99: percentile(taken, 0.99) }
}

/** Reads of one desktop, 16 at once, with and without streams of another organisation, by turns. */
async function withIdleStreams(service: Service, rounds: number, seconds: number): Promise<Row[]> {
  const [id] = await service.create(1)
  const reads = async () => {
    const connections = Array.from({ length: 16 }, () => service.connect())
    const { value, cpuUsEach } = await cpuOver(
      service,
      () => load(16, seconds, (caller) => connections[caller]!.send('GET', `/v1/desktops/${id}`)),
      ({ count }) => count,
    )
    for (const connection of connections) connection.close()
    return { rate: value.rate, ...cpuUsEach }
  }
  const other = await service.admin.createOrg({ name: 'idle' })
  const { api_key: key } = await service.admin.createKey({ org_id: other.id, name: 'idle' })
  await reads()
  const before = residentMiB(service.controlPlane.pid!)
  const taken: Rounds = { ours: [], floor: [] }
  let [after, streams]: [number, Socket[]] = [0, []]
  for (let round = 0; round < rounds; round++) {
    taken.floor!.push(await reads())
    streams = await openStreams(service, key)
    await sleep(settleMs)
    after = Math.max(after, residentMiB(service.controlPlane.pid!))
    taken.ours!.push(await reads())
    for (const stream of streams) stream.destroy()
    await sleep(settleMs)
  }
  const row = { subject: 'events' } as const
  return [
    rowOf(taken, {
      ...row,
      name: `reads, 16 at once, with ${idleStreams} idle streams`,
      unit: 'per second',
      better: 'more',
      of: 'rate',
      floor: 'without streams',
      ratioKind: 'share',
    }),
    {
      ...row,
      name: `memory of ${idleStreams} idle streams`,
      unit: 'MiB',
      better: 'less',
      figures: { ours: spreadOf([Math.round(after - before)]) },
    },
  ]
}

async function openStreams(service: Service, key: string): Promise<Socket[]> {
  const { hostname, port } = new URL(service.url)
  const head = `GET /v1/events HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: Bearer ${key}\r\n\r\n`
  const sockets: Socket[] = []
  while (sockets.length < idleStreams) {
    const some = Array.from({ length: 50 }, () => connect({ host: hostname, port: Number(port) }))
    await Promise.all(
      some.map(
        (socket) =>
          new Promise<void>((resolve, reject) => {
            socket.once('data', (head: Buffer) =>
              head.toString().startsWith('HTTP/1.1 200') ? resolve() : reject(new Error(head.toString())),
            )
            socket.once('error', reject)
            socket.write(head)
          }),
      ),
    )
    for (const socket of some) socket.on('error', () => undefined).resume()
    sockets.push(...some)
  }
  return sockets
}

/** Events that are in the table already, read from the first on. */
async function burstRate(service: Service): Promise<number> {
  const client = createClient({ baseUrl: service.url, apiKey: service.org.key })
  const { cursor } = await client.listEvents({ limit: 1_000 })
  await service.database.query(
    `insert into events (org_id, desktop_id, type, data)
     select $1, gen_random_uuid(), 'desktop.state', jsonb_build_object('state', 'awake', 'previous_state', 'waking',
       'generation', 1, 'host_id', gen_random_uuid(), 'failure_code', null) from generate_series(1, ${burst})`,
    [service.org.id],
  )
  const stop = new AbortController()
  const seen: EventJson[] = []
  const began = performance.now()
  for await (const event of client.events({ after: cursor, signal: stop.signal })) if (seen.push(event) >= burst) break
  return Math.round((seen.length / (performance.now() - began)) * 1_000)
}

// The hot paths on tables of 100,000 desktops and 1,000,000 operations, beside the same service on empty ones, in turn.
import { mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { load } from '../load.ts'
import { Service } from '../service.ts'
import { median, percentile } from '../statistics.ts'
import type { Measured } from '../subject.ts'
import { fill } from './fill.ts'
import type { Figures } from './size.ts'

const whole = { desktops: 100_000, operationsEach: 10 }
const small = { desktops: 20_000, operationsEach: 5 }
const atOnce = 16

export interface TablesOptions {
  checkout: string
  postgres: { url: string; dataDir: string }
  folder: string
  quick: boolean
  say(line: string): void
}

/** By measure: the figure on empty tables, on full ones, and what the full ones cost in relation. */
export async function tableFigures({ quick, say, folder, ...given }: TablesOptions): Promise<Record<string, Figures>> {
  const filling = quick ? small : whole
  const rounds = quick ? 2 : 3
  const start = async (name: string) => {
    mkdirSync(join(folder, name), { recursive: true })
    return Service.start({ ...given, folder: join(folder, name), hosts: 2 })
  }
  const empty = await start('empty')
  const full = await start('full')
  try {
    const operations = filling.desktops * filling.operationsEach
    say(
      `tables: filling ${filling.desktops.toLocaleString('en')} desktops, ${operations.toLocaleString('en')} operations`,
    )
    await fill((text, values) => full.database.query(text, values), full.org.id, filling)
    // Plans that were made for small tables are made again.
    await full.restartControlPlane()
    const taken = { empty: [] as Measured[], full: [] as Measured[] }
    for (let round = 0; round < rounds; round++) {
      say(`tables: round ${round + 1} of ${rounds}`)
      taken.empty.push(await hotPaths(empty))
      taken.full.push(await hotPaths(full))
    }
    const of = (side: 'empty' | 'full', name: string) => median(taken[side].map((measured) => measured[name]!))
    return Object.fromEntries(
      Object.keys(taken.empty[0]!).map((name) => {
        const [before, after] = [of('empty', name), of('full', name)]
        const cost = name.endsWith('ms') ? after / before : before / after
        return [name, { empty: before, full: after, cost }]
      }),
    )
  } finally {
    await empty.stop()
    await full.stop()
  }
}

async function hotPaths(service: Service): Promise<Measured> {
  const desktops = await service.create(atOnce)
  const connections = desktops.map(() => service.connect())
  const ask = async (caller: number, method: string, path: string, body?: string) => {
    const { status, body: text } = await connections[caller]!.send(method, path, body)
    if (status >= 300) throw new Error(`${method} ${path}: ${status} ${text}`)
  }
  const times: number[] = []
  const pair = async (caller: number) => {
    for (const verb of ['wake', 'hibernate']) {
      const began = performance.now()
      await ask(caller, 'POST', `/v1/desktops/${desktops[caller]}/${verb}?wait=true`)
      times.push(performance.now() - began)
    }
  }
  await load(1, 2, pair)
  const p50 = percentile(times, 0.5)
  const many = await load(atOnce, 2, pair)
  const gets = await load(atOnce, 1, (caller) => ask(caller, 'GET', `/v1/desktops/${desktops[caller]}`))
  const lists = await load(4, 1, (caller) => ask(caller, 'GET', '/v1/desktops?limit=100'))
  const histories = await load(4, 1, (caller) => ask(caller, 'GET', `/v1/desktops/${desktops[caller]}/operations`))
  const creates = await load(atOnce, 1, (caller) => ask(caller, 'POST', '/v1/desktops', '{"tier":"small"}'))
  for (const connection of connections) connection.close()
  return {
    'operation, one at a time, ms': p50,
    'operations, 16 at once, per second': many.rate * 2,
    'GET of one, per second': gets.rate,
    'list of 100, per second': lists.rate,
    'operations of one desktop, per second': histories.rate,
    'create, per second': creates.rate,
  }
}

// Names, labels and many at once: get_or_create, lists by a selector beside lists by state, and a bulk hibernation.
import { setTimeout as sleep } from 'node:timers/promises'
import { load } from '../load.ts'
import type { Service } from '../service.ts'
import {
  alternate,
  type Bench,
  eachSide,
  type Measured,
  type Rounds,
  type Row,
  rowOf,
  type Subject,
} from '../subject.ts'

const callers = 16
const labelled = 20_000
const inBulk = 1_000
const bulkRounds = 2

/** Each selects a part of the desktops; the list by state beside it selects as large a part. */
const selectors = [
  { name: 'by a selector of one in ten', select: 'team=t3', floor: 'state=stopped' },
  { name: 'by two terms', select: 'team=t3,env!=e1', floor: 'state=stopped' },
  { name: 'by a label that one has', select: 'run=r777', floor: 'state=stopped' },
]

export const names: Subject = {
  name: 'names',
  what: `get_or_create, ${callers} at once; lists of ${labelled.toLocaleString('en')} desktops with 5 labels by a selector beside lists by state; a bulk hibernation of ${inBulk.toLocaleString('en')}`,
  hosts: 'simulated',
  seconds: { fixed: 120, perRound: 12 },
  run: async (bench) => [...(await getOrCreates(bench)), ...(await lists(bench)), ...(await bulks(bench))],
}

async function getOrCreates(bench: Bench): Promise<Row[]> {
  let made = 0
  const rows: Row[] = []
  for (const [what, nameOf] of [
    ['of a new name', () => `new-${made++}`],
    ['of a name that exists', () => 'one'],
  ] as const) {
    const measure = (service: Service) => getOrCreate(service, nameOf, bench.secondsEach)
    const taken = await alternate(bench.rounds, eachSide(bench.sides, measure))
    const name = `get_or_create ${what}, ${callers} at once`
    rows.push(
      ...(['p50', 'p99'] as const).map((of) =>
        rowOf(taken, { subject: 'names', name, unit: `ms, ${of}`, better: 'less', of }),
      ),
    )
    bench.say(`${name}: done`)
  }
  return rows
}

async function getOrCreate(service: Service, nameOf: () => string, seconds: number): Promise<Measured> {
  const connections = Array.from({ length: callers }, () => service.connect())
  const { rate, p50, p99 } = await load(callers, seconds, async (caller) => {
    const wish = JSON.stringify({ tier: 'small', name: nameOf(), get_or_create: true })
    const { status, body } = await connections[caller]!.send('POST', '/v1/desktops', wish)
    if (status !== 201 && status !== 200) throw new Error(`create: ${status} ${body}`)
  })
  for (const connection of connections) connection.close()
  return { rate, p50, p99 }
}

async function lists(bench: Bench): Promise<Row[]> {
  for (const service of Object.values(bench.sides)) await fill(service)
  const rows: Row[] = []
  for (const { name, select, floor } of selectors) {
    const path = `select=${encodeURIComponent(select)}`
    const measure = (service: Service) => list(service, path, bench.secondsEach)
    const bare = () => list(bench.sides.ours, floor, bench.secondsEach)
    const taken = await alternate(bench.rounds, eachSide(bench.sides, measure, bare))
    const row = { subject: 'names', name: `list ${name}`, unit: 'ms, p50', better: 'less', floor: 'a list by state' }
    rows.push(rowOf(taken, { ...row, better: 'less', of: 'p50', ratioKind: 'multiple', goal: { ratio: 1.3 } }))
  }
  bench.say('lists by a selector: done')
  return rows
}

/** Desktops of a new organisation, a tenth of them stopped. */
async function fill(service: Service): Promise<void> {
  await service.enterNewOrg()
  await service.database.query(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs,
                           billing_mode, name, labels, created_at)
     select gen_random_uuid(), $1, 'small', case (n / 10) % 10 when 0 then 'stopped' else 'created' end, 'mini', 1, 512, 10, 1800,
            'hourly', 'filled-' || n,
            jsonb_build_object('team', 't' || n % 10, 'env', 'e' || n % 3, 'owner', 'o' || n % 200, 'run', 'r' || n, 'tool', 'x'),
            now() - n * interval '1 second'
       from generate_series(1, ${labelled}) n`,
    [service.org.id],
  )
  await service.database.query('vacuum analyze desktops')
}

async function list(service: Service, query: string, seconds: number): Promise<Measured> {
  const connections = Array.from({ length: 4 }, () => service.connect())
  const { rate, p50, p99 } = await load(connections.length, seconds, async (caller) => {
    const { status, body } = await connections[caller]!.send('GET', `/v1/desktops?limit=100&${query}`)
    if (status !== 200) throw new Error(`list: ${status} ${body.slice(0, 200)}`)
  })
  for (const connection of connections) connection.close()
  return { rate, p50, p99 }
}

async function bulks(bench: Bench): Promise<Row[]> {
  for (const service of Object.values(bench.sides)) {
    await service.enterNewOrg()
    await service.create(inBulk)
  }
  const taken: Rounds = await alternate(bulkRounds, eachSide(bench.sides, wakeAndHibernate))
  const row = { subject: 'names', unit: 's', better: 'less' } as const
  const count = inBulk.toLocaleString('en')
  return [
    rowOf(taken, { ...row, name: `bulk wake of ${count}`, of: 'wake' }),
    rowOf(taken, { ...row, name: `bulk hibernation of ${count}`, of: 'hibernate' }),
  ]
}

async function wakeAndHibernate(service: Service): Promise<Measured> {
  return { wake: await bulk(service, 'wake'), hibernate: await bulk(service, 'hibernate') }
}

/** Seconds until each desktop is done. */
async function bulk(service: Service, action: string): Promise<number> {
  const connection = service.connect()
  try {
    const began = performance.now()
    const asked = await connection.send('POST', '/v1/desktops/bulk', JSON.stringify({ action, select: '!none' }))
    if (asked.status !== 202) throw new Error(`bulk ${action}: ${asked.status} ${asked.body.slice(0, 200)}`)
    const { id } = JSON.parse(asked.body) as { id: string }
    for (;;) {
      const { body } = await connection.send('GET', `/v1/desktops/bulk/${id}`)
      const plan = JSON.parse(body) as { state: string; progress: Record<string, number> }
      if (plan.state !== 'running') {
        if (plan.progress['succeeded'] !== inBulk) throw new Error(`bulk ${action}: ${JSON.stringify(plan.progress)}`)
        return (performance.now() - began) / 1_000
      }
      await sleep(100)
    }
  } finally {
    connection.close()
  }
}

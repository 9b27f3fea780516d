// Guarantee: a whole list, however long, is one reading of one moment, in bounded memory; it is whole or visibly broken,
// and takes nothing from anybody else. With 200,000 desktops: `npm run test:scale`.
import { type IncomingMessage, request } from 'node:http'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Org, Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

const count = 20_000
let stack: Stack
let big: Org
beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  big = await stack.newOrg('big')
  await stack.database.rows(
    `insert into desktops (id, org_id, tier, state, image_version, vcpus, memory_mib, disk_gib, idle_timeout_secs, billing_mode)
     select gen_random_uuid(), $1, 'small', case when n % 100 = 0 then 'stopped' else 'created' end, 'mini', 1, 512, 10,
       1800, 'hourly' from generate_series(1, ${count}) n`,
    [big.id],
  )
})
afterAll(() => stack[Symbol.asyncDispose]())

/** The answer as soon as its first bytes are there; nothing of it is read yet. */
function open({ key }: Org, path = '/v1/desktops'): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    const sent = request(stack.url + path, { headers: { authorization: `Bearer ${key}` }, agent: false }, resolve)
    sent.on('error', reject).end()
  })
}

/** All of it; rejects if it is cut. */
async function rest(answer: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of answer.setEncoding('utf8')) text += chunk
  return text
}

const { parse } = JSON
const counts = () => stack.replica.parts.longReads.counts
const underWay = () => counts().taken

test('a long list is exactly what the contract says, newest first, each desktop once, as a short one is', async () => {
  const { status, headers, json } = await stack.api('GET', '/v1/desktops', { key: big.key })
  expect([status, headers['content-type']]).toEqual([200, 'application/json; charset=utf-8'])
  expect(Object.keys(json)).toEqual(['desktops'])
  const ids = (json.desktops as { id: string }[]).map(({ id }) => id)
  expect(ids).toHaveLength(count)
  expect(ids).toEqual([...new Set(ids)].toSorted().toReversed())
  const stopped = await stack.api('GET', '/v1/desktops?state=stopped', { key: big.key })
  expect(stopped.json.desktops).toHaveLength(count / 100)
  const [one] = json.desktops
  expect((await stack.api('GET', `/v1/desktops/${one.id}`, { key: big.key })).json).toEqual(one)
  await waitFor('nothing to be read', () => underWay() === 0)
})

test('what changes while a list is read does not change it: it is of one moment', async () => {
  const answer = await open(big)
  await stack.database.rows(`update desktops set tier = 'large' where org_id = $1`, [big.id])
  const { desktops } = parse(await rest(answer))
  expect(desktops).toHaveLength(count)
  expect(new Set(desktops.map(({ tier }: { tier: string }) => tier))).toEqual(new Set(['small']))
})

test('a list that fails after its first byte cuts the connection', async () => {
  stack.chronicle.foresee(/response terminated with an error/)
  const answer = await open(big)
  await stack.database.rows(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and query like 'fetch % from pages'`)
  await expect(rest(answer)).rejects.toThrow('aborted')
  await waitFor('nothing to be read', () => underWay() === 0)
})

test('who reads nothing, and who goes away, hold a bounded number of readings, and hold nobody else up', async () => {
  // A quarter of the pool of eight, of which one organisation has half.
  const slow = await open(big)
  const waiting = [open(big), open(big)]
  await waitFor('the others to wait', () => counts().waiting === 2)
  expect(counts()).toEqual({ taken: 1, waiting: 2 })
  expect((await stack.api('POST', '/v1/desktops', { body: { tier: 'small' } })).status).toBe(201)
  expect((await stack.api('GET', '/v1/desktops?limit=1000', { key: big.key })).json.desktops).toHaveLength(1_000)
  slow.destroy()
  // Read side by side: the requests may have arrived in the other order, and one of them is answered at a time.
  const lists = await Promise.all(waiting.map(async (next) => parse(await rest(await next)).desktops.length))
  expect(lists).toEqual([count, count])
  await waitFor('nothing to be read', () => underWay() === 0 && stack.replica.parts.pool.waitingCount === 0)
})

test('usage of many desktops is one reading, too, and its sums are those of its rows', async () => {
  await stack.database.rows(
    `insert into usage_intervals (desktop_id, org_id, tier, billing_mode, kind, generation, period, alive_until)
     select id, org_id, case when id::text < '8' then 'small' else 'large' end, 'hourly', 'awake', 1,
       tstzrange(to_timestamp(1000), to_timestamp(1010)), to_timestamp(1010)
     from desktops where org_id = $1 order by id limit 3000`,
    [big.id],
  )
  const { status, json } = await stack.api('GET', '/v1/usage?start=1000&end=1005.5', { key: big.key })
  expect([status, Object.keys(json)]).toEqual([200, ['start', 'end', 'desktops', 'totals']])
  expect([json.start, json.end, json.desktops.length]).toEqual([1_000, 1_005.5, 3_000])
  type Used = { tier: string; awake_seconds: number }
  for (const total of json.totals as Used[]) {
    const own = (json.desktops as Used[]).filter(({ tier }) => tier === total.tier)
    expect(total.awake_seconds).toBe(own.length * 5.5)
  }
  expect(json.totals.length).toBeGreaterThan(0)
  await waitFor('nothing to be read', () => underWay() === 0)
})

test('a HEAD reads no long list', async () => {
  const sent = request(`${stack.url}/v1/desktops`, { method: 'HEAD', headers: { authorization: `Bearer ${big.key}` } })
  const status = await new Promise((resolve) => sent.on('response', (answer) => resolve(answer.statusCode)).end())
  expect([status, underWay()]).toEqual([200, 0])
})

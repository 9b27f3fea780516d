// Guarantee: what a customer does in a loop writes a bounded number of events and deliveries, and one row says how many are missing.
import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiWish } from './parts/api.ts'
import { WebhookReceiver } from './parts/webhook-receiver.ts'

let stack: Stack
let receiver: WebhookReceiver
beforeAll(async () => {
  receiver = await WebhookReceiver.start()
  receiver.answer = () => 204
  stack = await Stack.start({ hosts: 0, controlPlane: { webhookAllowPrivate: true } })
})
afterAll(async () => {
  await stack[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

const hook = async (path: string, body: object = {}, key?: string): Promise<string> => {
  const answer = await stack.api('POST', '/v1/webhooks', {
    body: { url: receiver.url + path, ...body },
    ...(key && { key }),
  })
  expect(answer.status).toBe(201)
  return answer.json.id
}
const deliveries = async (id: string) =>
  (await stack.api('GET', `/v1/webhooks/${id}/deliveries?limit=50`)).json.deliveries
const events = (where: string) =>
  stack.database.rows<{ type: string; data: Record<string, unknown> }>(
    `select type, data from events where org_id = '${stack.org.id}' and ${where} order by seq`,
  )
/** As half a minute later. */
const later = (table: string, column: string) =>
  stack.database.rows(`update ${table} set ${column} = ${column} - interval '31 seconds' where ${column} is not null`)

test('a loop of renewals makes a bounded number of events; the log and a webhook say how many were left out', async () => {
  const { id } = await stack.desktop()
  await hook('/all')
  await hook('/locks', { types: ['wake_lock.taken'] })
  await hook('/states', { types: ['desktop.state'] })
  const asked = 60
  const put = () =>
    stack.api('PUT', `/v1/desktops/${id}/wake-locks/a`, { body: { reason: 'loop', expires_in_secs: 3_600 } })
  await put()
  // Each event takes a token; time gives some back.
  const [{ tokens }] = (await stack.database.rows('select tokens from log_budgets')) as [{ tokens: number }]
  expect(tokens).toBeLessThan(200)
  await stack.database.rows('update log_budgets set tokens = 10')
  const answers = await Promise.all(Array.from({ length: asked - 1 }, put))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  const [budget] = await stack.database.rows<{ left: string }>('select left_out as left from log_budgets')
  const logged = await events(`type like 'wake_lock.%'`)
  expect(logged.length + Number(budget!.left)).toBe(asked)
  expect(Number(budget!.left)).toBeGreaterThan(0)
  await later('log_budgets', 'left_out_since')
  await stack.replica.parts.events.note()
  const said = await events(`type = 'events.left_out'`)
  expect(said).toMatchObject([{ data: { count: Number(budget!.left), since: expect.any(String) } }])
  await stack.replica.parts.events.note()
  expect(await events(`type = 'events.left_out'`)).toHaveLength(1)
  const listed = (await stack.api('GET', '/v1/events?limit=10&type=events.left_out')).json.events
  expect(listed).toMatchObject([{ type: 'events.left_out', data: { count: Number(budget!.left) } }])
  const isSaid = ({ json }: { json: { type: string } }) => json.type === 'events.left_out'
  for (const path of ['/all', '/locks'])
    await waitFor('the webhook to learn of it', () => receiver.at(path).filter(isSaid).length === 1)
  expect(receiver.at('/states').filter(isSaid)).toEqual([])
})

test('states and operations are logged above that budget, too: others wait for them', async () => {
  await stack.database.rows('update log_budgets set tokens = -1e6')
  const { id } = await stack.desktop()
  expect(await events(`desktop_id = '${id}'`)).toMatchObject([{ type: 'desktop.state' }])
})

test('above their budget deliveries are left out; each webhook that misses some learns how many', async () => {
  const [one, two] = [await hook('/one'), await hook('/two', { types: ['desktop.state'] })]
  await stack.replica.parts.wings.webhooks.worker.run()
  await stack.database.rows('update delivery_budgets set tokens = -1e6')
  const made = [await stack.desktop(), await stack.desktop(), await stack.desktop()]
  const ids = made.map(({ id }) => id)
  const missed = () =>
    stack.database.rows(`select count::int from deliveries_left_out where webhook_id in ('${one}', '${two}')`)
  await waitFor('three to be left out of each', async () => {
    await stack.replica.parts.wings.webhooks.worker.run()
    return (await missed()).every(({ count }) => count === 3) && (await missed()).length === 2
  })
  expect(await events(`desktop_id in ('${ids.join("','")}')`)).toHaveLength(3)
  expect((await stack.api('POST', `/v1/webhooks/${one}/test`, { body: {} })).status).toBe(429)
  await later('deliveries_left_out', 'since')
  await stack.replica.parts.wings.webhooks.worker.maintain()
  for (const [id, path] of [
    [one, '/one'],
    [two, '/two'],
  ] as const) {
    const [said] = await waitFor('the webhook to learn of it', async () => {
      const found = receiver.at(path).filter(({ json }) => json.type === 'deliveries.left_out')
      return found.length > 0 && found
    })
    expect(said!.json.data).toMatchObject({ webhook_id: id, count: 3 })
    expect((await deliveries(id))[0]).toMatchObject({ type: 'deliveries.left_out' })
    expect(receiver.at(path).filter(({ json }) => ids.includes(json.desktop_id))).toEqual([])
  }
  expect(await events(`type = 'deliveries.left_out' and data->>'webhook_id' = '${one}'`)).toHaveLength(1)
})

test('another organisation has its own budgets', async () => {
  const { key } = await stack.otherOrg
  await stack.database.rows('update delivery_budgets set tokens = -1e6')
  const id = await hook('/other', {}, key)
  expect((await stack.api('POST', `/v1/webhooks/${id}/test`, { body: {}, key })).status).toBe(202)
})

test('a loop of audited requests writes a bounded number of entries, and one says how many are missing; an operator’s are all there', async () => {
  const { id } = await stack.desktop()
  const make = () => stack.api('POST', `/v1/desktops/${id}/file-urls`, { body: { path: '/tmp/a', method: 'GET' } })
  const entries = (action: string) =>
    stack.database.rows<{ details: Record<string, unknown> }>(
      `select details from audit_log where action = '${action}'`,
    )
  expect((await make()).status).toBe(201)
  await stack.database.rows(`update log_budgets set tokens = -1e6 where log = 'audit'`)
  expect([(await make()).status, (await make()).status]).toEqual([201, 201])
  expect(await entries('file-url.create')).toHaveLength(1)
  await stack.replica.parts.retention.noteLeftOut()
  expect(await entries('audit.left_out')).toEqual([])
  await later('log_budgets', 'left_out_since')
  for (let looks = 0; looks < 2; looks++) await stack.replica.parts.retention.noteLeftOut()
  expect(await entries('audit.left_out')).toMatchObject([{ details: { count: 2, since: expect.any(String) } }])
  await stack.api('POST', '/admin/v1/orgs', {
    key: await stack.replica.parts.principals.createOperatorKey('test'),
    body: { name: 'audited' },
  })
  expect(await entries('org.create')).not.toEqual([])
})

test('above its budget an organisation makes and wakes nothing; replays and destroys go on, and so do others', async () => {
  const { id } = await stack.desktop()
  const create = (wish: ApiWish = {}) => stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, ...wish })
  const keyed = { headers: { 'idempotency-key': 'before' } }
  const { json: made } = await create(keyed)
  const { lifecycle } = stack.replica.parts
  while (!lifecycle.take(stack.org.id, 100));
  // What has come back meanwhile is taken before each request.
  const take = lifecycle.take.bind(lifecycle)
  const spent = vi.spyOn(lifecycle, 'take').mockImplementation((orgId, count) => {
    while (orgId === stack.org.id && !take(orgId));
    return take(orgId, count)
  })
  onTestFinished(() => spent.mockRestore())
  const rows = async () => (await stack.database.rows('select id from operations')).length
  const before = await rows()
  const refused = { status: 429, json: { code: 'rate_limited', detail: expect.stringContaining('creates, wakes') } }
  expect(await create()).toMatchObject({ ...refused, headers: { 'retry-after': expect.any(String) } })
  expect(await stack.api('POST', `/v1/desktops/${id}/wake`)).toMatchObject(refused)
  expect(await rows()).toBe(before)
  expect(await create(keyed)).toMatchObject({ json: { id: made.id }, headers: { 'idempotency-replayed': 'true' } })
  expect((await stack.api('POST', `/v1/desktops/${id}/destroy`)).status).toBe(202)
  expect((await create({ key: (await stack.otherOrg).key })).status).toBe(201)
})

test('the decision says of each table what bounds it', async () => {
  const page = readFileSync('docs/decisions/0097-what-is-written-in-a-loop-has-a-budget.md', 'utf8')
  const rows = page.split('\n').filter((line) => line.startsWith('| `'))
  const named = rows.flatMap((row) => [...row.split('|')[1]!.matchAll(/`(\w+)`/g)].map(([, name]) => name))
  const tables = await stack.database.rows<{ name: string }>(
    `select tablename as name from pg_tables where schemaname = 'public' and tablename !~ '^events_\\d+$'`,
  )
  expect(named.toSorted()).toEqual(tables.map(({ name }) => name).toSorted())
})

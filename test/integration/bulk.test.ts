// Guarantee: a bulk does to each desktop that it has chosen what a request of its own would do, once, and says what became of it;
// nothing is chosen by leaving something out.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { send } from './parts/api.ts'

type Bulk = {
  id: string
  state: string
  settled_at: string | null
  progress: Record<string, number>
  desktops: { desktop_id: string; status: string; reason: { code: string } | null; operation_id: string | null }[]
}

const start = (stack: Stack, body: object, headers: Record<string, string> = {}) =>
  stack.api('POST', '/v1/desktops/bulk', { body, headers })
const settled = (stack: Stack, id: string): Promise<Bulk> =>
  waitFor('the plan to settle', async () => {
    const { json } = await stack.api('GET', `/v1/desktops/bulk/${id}`)
    return json.settled_at !== null && (json as Bulk)
  })
const make = async (stack: Stack, body: object = {}) =>
  (await stack.api('POST', '/v1/desktops', { body: { tier: 'small', ...body } })).json.id as string
const byId = ({ desktops }: Bulk) => Object.fromEntries(desktops.map((one) => [one.desktop_id, one]))

test('wakes, hibernates, labels and destroys what is selected, and leaves the rest alone', async () => {
  await using stack = await Stack.start()
  const ids = await Promise.all(Array.from({ length: 5 }, () => make(stack, { labels: { team: 'qa' } })))
  const other = await make(stack, { labels: { team: 'dev' } })
  for (const [action, state, extra] of [
    ['wake', 'awake', {}],
    ['hibernate', 'hibernated', {}],
    ['label', 'hibernated', { labels: { team: 'qa', run: '1' } }],
    ['destroy', 'destroyed', {}],
  ] as const) {
    const { status, json } = await start(stack, { action, select: 'team=qa', ...extra })
    expect([action, status, json.progress.total]).toEqual([action, 202, 5])
    const done = await settled(stack, json.id)
    expect([done.state, done.progress.succeeded]).toEqual(['done', 5])
    for (const id of ids) expect((await stack.see(id)).state).toBe(state)
    if (action === 'label') expect((await stack.see(ids[0]!)).labels).toEqual({ team: 'qa', run: '1' })
  }
  expect((await stack.see(other)).state).toBe('created')
})

test('a row says why nothing was done: nothing to do, no such desktop, or of another organisation', async () => {
  await using stack = await Stack.start()
  const [created, missing] = [await make(stack), '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80']
  const other = await stack.otherOrg
  const foreign = (await stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, key: other.key })).json.id
  const body = { action: 'hibernate', ids: [created, missing, foreign, created] }
  const dry = await start(stack, { ...body, dry_run: true })
  expect([dry.status, dry.json.id, dry.json.state]).toEqual([200, null, 'planned'])
  const { json } = await start(stack, body)
  for (const plan of [dry.json, await settled(stack, json.id)] as Bulk[]) {
    expect(plan.desktops).toHaveLength(3)
    const rows = byId(plan)
    expect([rows[created]!.status, rows[created]!.reason?.code]).toEqual(['skipped', 'wrong_state'])
    for (const id of [missing, foreign])
      expect([rows[id]!.status, rows[id]!.reason?.code]).toEqual(['skipped', 'not_found'])
  }
  expect((await stack.api('GET', `/v1/desktops/bulk/${json.id}`, { key: other.key })).status).toBe(404)
})

test.each<[object, string]>([
  [{ action: 'destroy' }, 'select'],
  [{ action: 'destroy', ids: [] }, 'ids'],
  [{ action: 'destroy', ids: ['x'] }, 'ids.0'],
  [{ action: 'destroy', select: '' }, 'select'],
  [{ action: 'destroy', select: 'a', ids: ['01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80'] }, 'ids'],
  [{ action: 'label', select: 'a' }, 'labels'],
  [{ action: 'label', select: 'a', labels: {} }, 'labels'],
  [{ action: 'wake', select: 'a', labels: {} }, 'labels'],
  [{ action: 'reboot', select: 'a' }, 'action'],
  [{ action: 'destroy', select: 'a', dry: true }, 'dry'],
])('%j is refused by the name of the field', async (body, field) => {
  await using stack = await Stack.start({ hosts: 0 })
  const { status, json } = await start(stack, body)
  expect([status, json.field]).toEqual([400, field])
})

test('what has not begun is cancelled; the same key is the same plan', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  for (let i = 0; i < 3; i++) await make(stack, { labels: { a: '' } })
  const key = { 'idempotency-key': 'bulk' }
  const first = await start(stack, { action: 'wake', select: 'a' }, key)
  const again = await start(stack, { action: 'wake', select: 'a' }, key)
  expect([again.json.id, again.headers['idempotency-replayed']]).toEqual([first.json.id, 'true'])
  const { status, json } = await stack.api('POST', `/v1/desktops/bulk/${first.json.id}/cancel`, {})
  expect([status, json.state]).toEqual([200, 'cancelled'])
})

test('another leader goes on with a plan, and begins nothing twice', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const ids = await Promise.all(Array.from({ length: 12 }, () => make(stack, { labels: { a: '' } })))
  const { json } = await start(stack, { action: 'wake', select: 'a' })
  await stack.replica.stop()
  const next = stack.replicas[1]!
  await next.leading()
  const done = await waitFor('the plan to settle', async () => {
    const seen = await send(`${next.url}/v1/desktops/bulk/${json.id}`, 'GET', { key: stack.org.key })
    return seen.status === 200 && seen.json.settled_at !== null && (seen.json as Bulk)
  })
  expect(done.progress.succeeded).toBe(12)
  const wakes = await stack.database.rows(`select desktop_id from operations where kind = 'wake'`)
  expect(wakes).toHaveLength(ids.length)
})

test('a plan of labels that is cancelled changes no label from then on', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const ids = await Promise.all(Array.from({ length: 20 }, () => make(stack, { labels: { a: '' } })))
  const release = await stack.database.hold('select 1 from desktops for update')
  const { json } = await start(stack, { action: 'label', select: 'a', labels: { b: '' } })
  const cancelled = await stack.api('POST', `/v1/desktops/bulk/${json.id}/cancel`, {})
  expect(cancelled.json.progress.cancelled).toBe(20)
  await release()
  expect((await settled(stack, json.id)).progress.cancelled).toBe(20)
  await stack.replica.parts.wings.bulk.settled()
  for (const id of ids) expect((await stack.see(id)).labels).toEqual({ a: '' })
})

test('plans are bounded: those in progress, also if all are sent at once, and those that are kept', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  await make(stack, { labels: { a: '' } })
  await stack.database.rows(
    `insert into bulks (id, org_id, action, made_by, settled_at)
     select lpad(n::text, 32, '0')::uuid, $1, 'wake', 'test', now() from generate_series(1, 300) n`,
    [stack.org.id],
  )
  const release = await stack.database.hold('select 1 from desktops for update')
  const body = { action: 'label', select: 'a', labels: { b: '' } }
  const answers = await Promise.all(Array.from({ length: 30 }, () => start(stack, body)))
  expect(answers.map(({ status }) => status).sort()).toEqual([...Array(10).fill(202), ...Array(20).fill(409)])
  await release()
  for (const { status, json } of answers) if (status === 202) await settled(stack, json.id)
  expect(await stack.database.rows('select 1 from bulks')).toHaveLength(200)
})

test('above the rate of its organisation a plan goes on as the rate permits, and no other begins', async () => {
  await using stack = await Stack.start()
  for (let i = 0; i < 3; i++) await make(stack, { labels: { a: '' } })
  const { lifecycle } = stack.replica.parts
  while (!lifecycle.take(stack.org.id, 100));
  while (!lifecycle.take(stack.org.id));
  const refused = await start(stack, { action: 'wake', select: 'a' })
  expect([refused.status, refused.json.code]).toEqual([429, 'rate_limited'])
  const { json } = await waitFor('the rate to permit a plan', async () => {
    const answer = await start(stack, { action: 'wake', select: 'a' })
    return answer.status === 202 && answer
  })
  expect((await settled(stack, json.id)).progress.succeeded).toBe(3)
})

test('a long plan is streamed by each route that shows it, and a HEAD of it holds nothing open', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { json } = await start(stack, { action: 'wake', ids: [await make(stack)] })
  await stack.database.rows(
    `insert into bulk_desktops (bulk_id, desktop_id, status)
     select $1, gen_random_uuid(), 'waiting' from generate_series(1, 1500)`,
    [json.id],
  )
  const path = `/v1/desktops/bulk/${json.id}`
  for (const [method, where] of [
    ['POST', `${path}/cancel`],
    ['GET', path],
  ] as const) {
    const { status, json: shown } = await stack.api(method, where)
    expect([status, shown.desktops.length, shown.progress.total]).toEqual([200, 1501, 1501])
  }
  for (let i = 0; i < 5; i++) expect((await stack.api('HEAD', path)).status).toBe(200)
  await waitFor('no long read', () => stack.replica.parts.longReads.counts.taken === 0)
})

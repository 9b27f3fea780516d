// Guarantee: of the desktops that a quota selects there are never more than it allows, however many ask at once and whatever way a
// desktop comes to match; who is in stays, and an organisation without quotas waits for nothing.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Org, Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { type ApiAnswer, send } from './parts/api.ts'

let stack: Stack
let operator: string
beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operator)
})
afterAll(() => stack[Symbol.asyncDispose]())

const admin = (method: string, path: string, body?: object, key = operator) =>
  stack.api(method, `/admin/v1/orgs/${path}`, { key, ...(body && { body }) })
const setQuota = async ({ id }: Org, name: string, select: string, max_desktops: number) => {
  const { status, json } = await admin('PUT', `${id}/quotas/${name}`, { select, max_desktops })
  expect([name, status, json]).toEqual([name, 200, { name, select, max_desktops, desktops: json.desktops }])
}
const create = ({ key }: Org, body: object, headers: Record<string, string> = {}) =>
  stack.api('POST', '/v1/desktops', { key, body: { tier: 'small', ...body }, headers })
const label = ({ key }: Org, id: string, labels: object) =>
  stack.api('PATCH', `/v1/desktops/${id}`, { key, body: { labels } })
const see = async ({ key }: Org) => (await stack.api('GET', '/v1/quotas', { key })).json
const counted = async (org: Org) =>
  Object.fromEntries((await see(org)).quotas.map((one: { name: string; desktops: number }) => [one.name, one.desktops]))
const having = async ({ id }: Org, key: string, value: string) =>
  (
    await stack.database.rows(
      `select 1 from desktops where org_id = $1 and state <> 'destroyed' and labels ->> $2 = $3`,
      [id, key, value],
    )
  ).length
const statuses = (answers: ApiAnswer[]) => answers.map(({ status }) => status).toSorted()
const team = (value: string) => ({ labels: { team: value } })

test('a hundred callers at once, of two replicas while the leader changes, get as many as the quota allows', async () => {
  await using pair = await Stack.start({ hosts: 0, replicas: 2 })
  const { org, replicas } = pair
  const key = await pair.replica.parts.principals.createOperatorKey('ops')
  const path = `/admin/v1/orgs/${org.id}/quotas/qa`
  await pair.api('PUT', path, { key, body: { select: 'team=qa', max_desktops: 7 } })
  const urls = replicas.map(({ url }) => url)
  const one = (at: number) =>
    waitFor('an answer of the leader', async () => {
      const wish = { key: org.key, body: { tier: 'small', ...team('qa') }, headers: { 'idempotency-key': `${at}` } }
      for (const url of at % 2 ? urls : urls.toReversed()) {
        const answer = await send(`${url}/v1/desktops`, 'POST', wish)
        if (answer.status !== 503) return answer
      }
      return undefined
    })
  const ended = pair.database.endSessions('dormouse-leadership')
  const answers = await Promise.all(Array.from({ length: 100 }, (_, at) => one(at)))
  await ended
  expect(answers.filter(({ status }) => status < 300)).toHaveLength(7)
  expect(new Set(answers.filter(({ status }) => status >= 300).map(({ json }) => json.quota))).toEqual(new Set(['qa']))
  expect(await pair.database.rows(`select 1 from desktops where state <> 'destroyed'`)).toHaveLength(7)
})

test('a create beyond it is told the quota and its limit; others, and replays of earlier keys, are answered as ever', async () => {
  const org = await stack.newOrg('creates')
  await setQuota(org, 'qa', 'team=qa', 2)
  await setQuota(org, 'ci', 'env in (a,b)', 1)
  const first = await create(org, { ...team('qa'), name: 'first' }, { 'idempotency-key': 'first' })
  expect((await create(org, { labels: { team: 'qa', env: 'a' } })).status).toBe(201)
  const refused = await create(org, team('qa'))
  expect(refused).toMatchObject({ status: 409, json: { code: 'quota_exceeded', quota: 'qa' } })
  expect(refused.json.detail).toMatch(
    /^the quota `qa` has reached its limit of 2 desktops; destroy some that it counts/,
  )
  expect((await create(org, { labels: { env: 'b' } })).json).toMatchObject({ quota: 'ci' })
  expect((await create(org, team('dev'))).status).toBe(201)
  expect((await create(org, {})).status).toBe(201)
  const again = await create(org, team('qa'), { 'idempotency-key': 'first' })
  expect([again.status, again.json.id]).toEqual([200, first.json.id])
  const named = await create(org, { ...team('qa'), name: 'first', get_or_create: true })
  expect([named.status, named.json.id]).toEqual([200, first.json.id])
  expect(await see(org)).toEqual({
    max_desktops: 10_000,
    desktops: 4,
    quotas: [
      { name: 'ci', select: 'env in (a,b)', max_desktops: 1, desktops: 1 },
      { name: 'qa', select: 'team=qa', max_desktops: 2, desktops: 2 },
    ],
  })
  await stack.api('POST', `/v1/desktops/${first.json.id}/destroy?wait=true`, { key: org.key })
  expect(statuses(await Promise.all(Array.from({ length: 10 }, () => create(org, team('qa')))))).toEqual([
    201,
    ...Array(9).fill(409),
  ])
})

test('labels that many desktops are given at once let in as many as there is room for; who is in is never refused', async () => {
  const org = await stack.newOrg('labels')
  await setQuota(org, 'qa', 'team=qa', 5)
  await setQuota(org, 'kept', '!temporary,team', 100)
  const made = await Promise.all(Array.from({ length: 20 }, () => create(org, team('dev'))))
  const ids = made.map(({ json }) => json.id as string)
  const both = [
    ...ids.map((id) => () => label(org, id, { team: 'qa' })),
    ...ids.map(() => () => create(org, team('qa'))),
  ]
  const answers = await Promise.all(both.map((ask) => ask()))
  expect(answers.filter(({ status }) => status < 300)).toHaveLength(5)
  expect(answers.find(({ status }) => status === 409)!.json).toMatchObject({ code: 'quota_exceeded', quota: 'qa' })
  expect(await having(org, 'team', 'qa')).toBe(5)

  const { desktops } = (await stack.api('GET', '/v1/desktops?select=team%3Dqa', { key: org.key })).json
  const [inside, leaving] = desktops.map(({ id }: { id: string }) => id)
  const outside = ids.find((id) => !desktops.some((one: { id: string }) => one.id === id))!
  expect((await label(org, inside, { team: 'qa', run: '1' })).status).toBe(200)
  expect((await label(org, outside, { run: '1' })).status).toBe(200)
  expect((await label(org, outside, { team: 'qa' })).status).toBe(409)
  expect((await label(org, leaving, { team: null })).status).toBe(200)
  expect((await label(org, outside, { team: 'qa' })).status).toBe(200)
  expect(await counted(org)).toMatchObject({ qa: 5 })
})

test('a bulk gives labels to as many as there is room for, and says why the others did not get them', async () => {
  const org = await stack.newOrg('bulk')
  await setQuota(org, 'qa', 'team=qa', 3)
  await Promise.all(Array.from({ length: 12 }, () => create(org, team('dev'))))
  const body = { action: 'label', select: 'team=dev', labels: { team: 'qa' } }
  const { json } = await stack.api('POST', '/v1/desktops/bulk', { key: org.key, body })
  const done = await waitFor('the plan to settle', async () => {
    const { json: plan } = await stack.api('GET', `/v1/desktops/bulk/${json.id}`, { key: org.key })
    return plan.settled_at !== null && plan
  })
  expect(done.progress).toMatchObject({ succeeded: 3, failed: 9 })
  const failed = done.desktops.find(({ status }: { status: string }) => status === 'failed')
  expect(failed.reason).toMatchObject({ code: 'quota_exceeded', detail: expect.stringContaining('`qa`') })
  expect(await having(org, 'team', 'qa')).toBe(3)
})

test('a quota that is set later, lowered or widened refuses new desktops only; one that is removed refuses none', async () => {
  const org = await stack.newOrg('changed')
  await Promise.all(Array.from({ length: 3 }, () => create(org, team('qa'))))
  await setQuota(org, 'qa', 'team=qa', 3)
  await waitFor('the quota', async () => (await create(org, team('qa'))).status === 409)
  const before = await having(org, 'team', 'qa')
  await setQuota(org, 'qa', 'team=qa', 0)
  const { json } = await create(org, team('qa'))
  expect(json.detail).toBe('the quota `qa`’s limit is 0 desktops; ask the operator to raise it')
  await setQuota(org, 'qa', 'team', 1)
  expect((await create(org, team('dev'))).json.quota).toBe('qa')
  expect([await having(org, 'team', 'qa'), await counted(org)]).toEqual([before, { qa: before }])
  expect((await admin('DELETE', `${org.id}/quotas/qa`)).status).toBe(204)
  expect((await admin('DELETE', `${org.id}/quotas/qa`)).status).toBe(404)
  expect((await create(org, team('qa'))).status).toBe(201)
  const { entries } = (await stack.api('GET', `/admin/v1/audit?subject=${org.id}&limit=2`, { key: operator })).json
  expect(entries[0]).toMatchObject({ action: 'quota.remove', details: { name: 'qa', select: 'team', max_desktops: 1 } })
  expect(entries[1]).toMatchObject({ action: 'quota.set', details: { before: { select: 'team=qa', max_desktops: 0 } } })
})

test('without quotas nothing waits for the organisation’s lock', async () => {
  const [free, held] = [await stack.newOrg('free'), await stack.newOrg('held')]
  await setQuota(held, 'qa', 'team=qa', 5)
  const { json } = await create(free, {})
  const ids = `'${free.id}', '${held.id}'`
  const release = await stack.database.hold(`select 1 from organisations where id in (${ids}) for no key update`)
  try {
    expect((await create(free, team('qa'))).status).toBe(201)
    expect((await label(free, json.id, { team: 'qa' })).status).toBe(200)
    expect((await create(held, team('dev'))).status).toBe(201)
    const counting = create(held, team('qa'))
    await waitFor('it to wait for the lock', async () => {
      const text = `select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%for no key update%'`
      return (await stack.database.rows(`${text} and datname = current_database()`)).length === 1
    })
    await release()
    expect((await counting).status).toBe(201)
  } finally {
    await release().catch(() => undefined)
  }
})

test('names, selectors and limits of any kind are taken or named, and no organisation sees those of another', async () => {
  const org = await stack.newOrg('hostile')
  const other = await stack.newOrg('other')
  const good = { select: 'team=qa', max_desktops: 1 }
  for (const name of ['A', 'ä', '-a', 'a-', 'a b', '__proto__', 'a/b', 'a\u0000', '\u202ea', "a';--", 'a'.repeat(65)]) {
    const { status, json } = await admin('PUT', `${org.id}/quotas/${encodeURIComponent(name)}`, good)
    expect([name, status, json.field]).toEqual([name, 400, 'name'])
  }
  const texts = {
    select: ['', 'team=qa,', 'a=\u202e', `a=${'x'.repeat(2_000)}`],
    max_desktops: [-1, 1.5, '1', 2e9],
  }
  for (const [field, values] of Object.entries(texts)) {
    for (const value of values) {
      const { status, json } = await admin('PUT', `${org.id}/quotas/qa`, { ...good, [field]: value })
      expect([value, status, json.field]).toEqual([value, 400, field])
    }
  }
  expect((await admin('PUT', `${org.id}/quotas/qa`, { ...good, selector: 'a' })).status).toBe(400)
  expect((await admin('PUT', `${org.id}/quotas/qa`, good, org.key)).status).toBe(403)
  expect((await admin('PUT', `${stack.replica.parts.replicaId}/quotas/qa`, good)).status).toBe(404)
  expect(await see(org)).toMatchObject({ quotas: [] })

  const value = `a, "b" \\ ' ) or (true) -- $1 <b>`
  const quoted = `"${value.replaceAll(/["\\]/g, '\\$&')}"`
  await setQuota(org, 'constructor', `constructor=${quoted}`, 1)
  const labels = { constructor: value }
  expect(statuses([await create(org, { labels }), await create(org, { labels })])).toEqual([201, 409])
  expect((await create(org, { labels: { constructor: `${value}2` } })).status).toBe(201)
  expect((await create(other, { labels })).status).toBe(201)
  expect((await create(other, { labels })).status).toBe(201)
  expect(await see(other)).toEqual({ max_desktops: 10_000, desktops: 2, quotas: [] })

  for (let at = 1; at < 32; at++) await setQuota(org, `q${at}`, `team=${at}`, 1)
  const more = await admin('PUT', `${org.id}/quotas/q32`, good)
  expect([more.status, more.json.code]).toEqual([409, 'conflict'])
  await setQuota(org, 'q31', 'team=changed', 2)
  expect((await admin('GET', `${org.id}/quotas`)).json.quotas).toHaveLength(32)
})

// Guarantee: an organisation has at most as many desktops as it may have, to the one, however many ask at once; and what
// it has, and what it asked for before, it keeps.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Org, Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiAnswer } from './parts/api.ts'

const limit = 5
let stack: Stack
let operator: string
beforeAll(async () => {
  stack = await Stack.start({ controlPlane: { maxDesktopsPerOrg: limit } })
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
})
afterAll(() => stack[Symbol.asyncDispose]())

const create = ({ key }: Org, name?: string) =>
  stack.api('POST', '/v1/desktops', {
    key,
    body: { tier: 'small' },
    ...(name && { headers: { 'idempotency-key': name } }),
  })
const crowd = (org: Org, names: (string | undefined)[]) => Promise.all(names.map((name) => create(org, name)))
const anonymous = (count: number) => Array.from({ length: count }, () => undefined)
const statuses = (answers: ApiAnswer[]) => answers.map(({ status }) => status).toSorted()
const has = async ({ id }: Org) =>
  (await stack.database.rows(`select 1 from desktops where org_id = $1 and state <> 'destroyed'`, [id])).length
const setLimit = (org: Org, max_desktops: number | null) =>
  stack.api('PATCH', `/admin/v1/orgs/${org.id}`, { key: operator, body: { max_desktops } })

test('of many who ask at once as many get a desktop as there is room; the others are told the limit', async () => {
  const org = await stack.newOrg('crowd')
  const answers = await crowd(org, anonymous(30))
  expect(statuses(answers)).toEqual([...Array(limit).fill(201), ...Array(25).fill(409)])
  const refused = answers.find(({ status }) => status === 409)!
  expect(refused.json).toMatchObject({ code: 'quota_exceeded', detail: expect.stringContaining(`${limit} desktops`) })
  expect(await has(org)).toBe(limit)
})

test('replays of earlier keys are answered as ever, and take nobody’s place', async () => {
  const org = await stack.newOrg('replays')
  const names = ['a', 'b', 'c', 'd']
  expect(statuses(await crowd(org, names))).toEqual(Array(4).fill(201))
  const answers = await crowd(org, [...names, ...names, ...names, undefined])
  expect(statuses(answers)).toEqual([...Array(12).fill(200), 201])
  const full = await crowd(org, [...names, 'e', undefined])
  expect(full.map(({ status }) => status)).toEqual([200, 200, 200, 200, 409, 409])
  expect(full[0]!.headers['idempotency-replayed']).toBe('true')
})

test('destroyed desktops do not count: their places are free at once', async () => {
  const org = await stack.newOrg('churn')
  await crowd(org, anonymous(limit))
  for (let round = 0; round < 3; round++) {
    const { desktops } = (await stack.api('GET', '/v1/desktops', { key: org.key })).json
    const gone = await stack.api('POST', `/v1/desktops/${desktops[0].id}/destroy?wait=true`, { key: org.key })
    expect(gone.status).toBe(200)
    expect(statuses(await crowd(org, anonymous(3)))).toEqual([201, 409, 409])
  }
})

test('an operator sets the limit of one organisation; what is above it stays', async () => {
  const org = await stack.newOrg('grown')
  await crowd(org, anonymous(limit))
  expect((await setLimit(org, limit + 1)).json).toMatchObject({ id: org.id, max_desktops: limit + 1 })
  await waitFor('the new limit', async () => (await create(org)).status === 201)
  expect((await create(org)).status).toBe(409)
  await setLimit(org, 1)
  const told = await waitFor('the lower limit', async () => {
    const { json } = await create(org)
    return json.detail.includes('has reached its limit of 1 desktop;') && json
  })
  expect(told.code).toBe('quota_exceeded')
  await setLimit(org, 0)
  await waitFor('no room at all', async () => (await create(org)).json.detail.includes('limit is 0 desktops;'))
  expect(await has(org)).toBe(limit + 1)
  expect((await stack.api('GET', '/v1/desktops', { key: org.key })).json.desktops).toHaveLength(limit + 1)
  expect((await setLimit(org, null)).json.max_desktops).toBeNull()
  const listed = (await stack.api('GET', '/admin/v1/orgs', { key: operator })).json
  expect(listed.default_max_desktops).toBe(limit)
  const [line] = (await stack.api('GET', `/admin/v1/audit?subject=${org.id}&limit=1`, { key: operator })).json.entries
  expect(line).toMatchObject({ action: 'org.change', details: { max_desktops: null, before: 0 } })
  expect((await setLimit({ ...org, id: stack.hosts[0]!.id }, 1)).status).toBe(404)
})

test('the next leader counts what the one before has made', async () => {
  const org = await stack.newOrg('led')
  await crowd(org, anonymous(2))
  await stack.endTerm()
  const answers = await waitFor('a leader', async () => {
    const all = await crowd(org, anonymous(10))
    return all.every(({ status }) => status !== 503) && all
  })
  expect(statuses(answers)).toEqual([...Array(3).fill(201), ...Array(7).fill(409)])
})

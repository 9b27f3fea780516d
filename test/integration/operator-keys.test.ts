// Guarantee: operators manage their own keys: one that was revoked or has expired opens nothing, and one that reads metrics
// opens nothing else.
import { createAdminClient } from '@dormouse/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

let stack: Stack
let admin: ReturnType<typeof createAdminClient>

beforeAll(async () => {
  stack = await Stack.start({ hosts: 0 })
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
})
afterAll(() => stack[Symbol.asyncDispose]())

const statusOf = async (path: string, key: string) => (await stack.api('GET', path, { key })).status

test('a key of the role metrics reads metrics and nothing else', async () => {
  const { operator_key: key, role } = await admin.createOperatorKey({ name: 'prometheus', role: 'metrics' })
  expect(role).toBe('metrics')
  expect(await statusOf('/metrics', key)).toBe(200)
  const routes = [
    '/admin/v1/orgs',
    '/admin/v1/operator-keys',
    '/admin/v1/hosts',
    '/admin/v1/nothing',
    '/admin/v1/events',
  ]
  for (const route of routes) expect([route, await statusOf(route, key)]).toEqual([route, 403])
  const refused = await stack.api('POST', '/admin/v1/operator-keys', { key, body: { name: 'more' } })
  expect(refused.json).toMatchObject({
    code: 'forbidden',
    detail: expect.stringContaining('reads metrics and nothing'),
  })
  expect(await statusOf('/v1/desktops', key)).toBe(401)
})

test('keys are listed without themselves, renamed, and revoked at once', async () => {
  const made = await admin.createOperatorKey({ name: 'alice' })
  expect(await statusOf('/admin/v1/orgs', made.operator_key)).toBe(200)
  const renamed = await admin.changeOperatorKey(made.id, { name: 'bob' })
  expect(renamed).toMatchObject({ name: 'bob', role: 'operator', expires_at: null, revoked_at: null })
  await admin.revokeOperatorKey(made.id)
  expect(await statusOf('/admin/v1/orgs', made.operator_key)).toBe(401)
  expect(await statusOf('/metrics', made.operator_key)).toBe(401)
  const { operator_keys } = await admin.listOperatorKeys()
  expect(operator_keys.find(({ id }) => id === made.id)).toMatchObject({ name: 'bob', revoked_at: expect.any(String) })
  expect(JSON.stringify(operator_keys)).not.toContain('svc_op_')
  await expect(admin.changeOperatorKey(made.id, { name: 'x' })).rejects.toMatchObject({ code: 'not_found' })
  const customer = await stack.replica.parts.principals.createKey(stack.org.id, 'customer')
  await expect(admin.revokeOperatorKey(customer.id)).rejects.toMatchObject({ code: 'not_found' })
  await expect(admin.revokeKey(operator_keys[0]!.id)).rejects.toMatchObject({ code: 'not_found' })
})

test('a key expires, and no later than a change says', async () => {
  const made = await admin.createOperatorKey({ name: 'intern', valid_secs: 60 })
  expect(Date.parse(made.expires_at!) - Date.parse(made.created_at)).toBe(60_000)
  expect((await admin.changeOperatorKey(made.id, { valid_secs: null })).expires_at).toBeNull()
  expect(await statusOf('/admin/v1/orgs', made.operator_key)).toBe(200)
  await stack.database.rows('update keys set expires_at = now() where id = $1', [made.id])
  await waitFor('the key to have expired', async () => (await statusOf('/admin/v1/orgs', made.operator_key)) === 401)
  expect(await stack.replica.parts.principals.withdrawn([`key:${made.id}`])).toEqual(new Set([`key:${made.id}`]))
})

test.each([
  ['POST', '', {}, 'name'],
  ['POST', '', { name: 'x', role: 'root' }, 'role'],
  ['POST', '', { name: 'x', valid_secs: 1 }, 'valid_secs'],
  ['PATCH', '/019a9f00-0000-7000-8000-000000000001', { valid_secs: 'x' }, 'valid_secs'],
  ['PATCH', '/nonsense', { name: 'x' }, 'id'],
  ['DELETE', '/nonsense', undefined, 'id'],
])('%s /admin/v1/operator-keys%s %j is 400 of %s', async (method, path, body, field) => {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  expect((await stack.api(method, `/admin/v1/operator-keys${path}`, { key, body })).json).toMatchObject({
    status: 400,
    field,
  })
})

test('an invitation is listed without its token, and a revoked one enrols nobody', async () => {
  const { id, token } = await admin.inviteHost({ name: 'rack4-2' })
  const list = (await admin.listInvites()).invites
  expect(list[0]).toMatchObject({ id, name: 'rack4-2', used_at: null, host_id: null })
  expect(JSON.stringify(list)).not.toContain('dormouse_invite_')
  await admin.revokeInvite(id)
  const body = { token, name: 'rack4-2', public_key: { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } }
  expect((await stack.api('POST', '/agent/v1/enrol', { key: null, body })).json).toMatchObject({ code: 'invite_spent' })
  await expect(admin.revokeInvite('019a9f00-0000-7000-8000-000000000001')).rejects.toMatchObject({ code: 'not_found' })
  const used = await admin.inviteHost()
  const enrolled = await stack.api('POST', '/agent/v1/enrol', { key: null, body: { ...body, token: used.token } })
  expect(enrolled.status).toBe(201)
  await expect(admin.revokeInvite(used.id)).rejects.toMatchObject({
    code: 'invite_spent',
    message: expect.stringContaining(enrolled.json.host_id),
  })
})

// Guarantee: nothing of a suspended organisation wakes, and nothing is lost; other organisations notice nothing.
import { createAdminClient } from '@dormouse/client'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

test('a suspended organisation sleeps, keeps everything, and goes on after it is resumed', async () => {
  await using stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const keyed = { headers: { 'idempotency-key': 'before' }, body: { tier: 'small' } }
  const before = await stack.api('POST', '/v1/desktops', keyed)
  const [awake, fresh] = [await stack.desktop('awake'), await stack.desktop()]
  const suspended = await admin.suspendOrg(stack.org.id)
  expect(suspended.suspended_at).toEqual(expect.any(String))
  expect(await admin.suspendOrg(stack.org.id)).toEqual(suspended)

  await waitFor('its desktop to sleep', async () => (await stack.see(awake.id)).state === 'hibernated')
  const operations = await stack.api('GET', `/v1/desktops/${awake.id}/operations`)
  expect(operations.json.operations[0]).toMatchObject({ kind: 'hibernate', requested_by: 'operator' })

  const refused = { status: 403, code: 'org_suspended', detail: expect.stringContaining('ask the operator to resume') }
  for (const id of [awake.id, fresh.id])
    expect((await stack.api('POST', `/v1/desktops/${id}/wake`)).json).toMatchObject(refused)
  const onHost = { key: operatorKey, body: { host: stack.host.name } }
  expect((await stack.api('POST', `/admin/v1/desktops/${fresh.id}/wake`, onHost)).json).toMatchObject(refused)
  // A quota that was read before the suspension is used for a second.
  const created = () => stack.api('POST', '/v1/desktops', { body: { tier: 'small' } })
  const answer = await waitFor('a create to be refused', async () => {
    const { status, json } = await created()
    return status === 403 && json
  })
  expect(answer).toMatchObject(refused)
  const again = await stack.api('POST', '/v1/desktops', keyed)
  expect([again.status, again.json.id]).toEqual([200, before.json.id])

  const other = await stack.otherOrg
  const theirs = await stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, key: other.key })
  const woken = await stack.api('POST', `/v1/desktops/${theirs.json.id}/wake?wait=true`, { key: other.key })
  expect([theirs.status, woken.status]).toEqual([201, 200])

  expect((await stack.api('GET', '/v1/desktops')).json.desktops.length).toBeGreaterThanOrEqual(3)
  expect((await stack.api('POST', `/v1/desktops/${fresh.id}/destroy?wait=true`)).status).toBe(200)
  expect((await admin.resumeOrg(stack.org.id)).suspended_at).toBeNull()
  const back = await stack.api('POST', `/v1/desktops/${awake.id}/wake?wait=true`)
  expect(back.json).toMatchObject({ state: 'succeeded', result: { resumed_from: 'memory' } })
  await expect(admin.suspendOrg(newId())).rejects.toMatchObject({ code: 'not_found' })
})

test('operators list, read, hibernate and destroy desktops of any organisation', async () => {
  await using stack = await Stack.start()
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const { id } = await stack.desktop('awake')
  const other = await stack.otherOrg
  await stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, key: other.key })
  expect((await admin.listDesktops()).desktops).toHaveLength(2)
  for (const query of [{ org_id: stack.org.id }, { host_id: stack.host.id }, { state: 'awake' as const }])
    expect((await admin.listDesktops(query)).desktops.map((one) => one.id)).toEqual([id])
  expect(await admin.getDesktop(id)).toMatchObject({ id, org_id: stack.org.id, state: 'awake' })
  expect(await admin.hibernateDesktop(id)).toMatchObject({ state: 'succeeded', requested_by: 'caller' })
  expect(await admin.destroyDesktop(id)).toMatchObject({ kind: 'destroy', state: 'succeeded' })
  expect(await admin.getDesktop(id)).toMatchObject({ state: 'destroyed' })
  await expect(admin.getDesktop(newId())).rejects.toMatchObject({ code: 'not_found' })
  for (const [method, path] of [
    ['GET', '/desktops/nonsense'],
    ['POST', '/desktops/nonsense/destroy'],
    ['POST', '/orgs/nonsense/suspend'],
  ] as const)
    expect((await stack.api(method, `/admin/v1${path}`, { key: operatorKey })).json).toMatchObject({
      status: 400,
      field: 'id',
    })
  expect((await stack.api('GET', `/admin/v1/desktops/${id}`)).status).toBe(403)
})

// Guarantee: a cordoned host gets no new desktop but those for which an operator names it, and what it has goes on.
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { Host } from './parts/host.ts'

async function operatorOf(stack: Stack) {
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  const post = (host: string, verb: 'cordon' | 'uncordon') =>
    stack.api('POST', `/admin/v1/hosts/${host}/${verb}`, { key, body: {} })
  const audited = async () =>
    (await stack.database.rows<{ action: string }>('select action from audit_log order by id')).map(
      ({ action }) => action,
    )
  const wakeOn = async (id: string, host: string) =>
    stack.api('POST', `/admin/v1/desktops/${id}/wake?wait=true`, { key, body: { host } })
  return { post, wakeOn, audited }
}

test('new desktops go elsewhere, those on it go on, and an uncordon opens it again', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  const { post, audited } = await operatorOf(stack)
  const old = await stack.desktop('awake')
  const host = await stack.hostOf(old.id)
  const other = stack.hosts.find(({ id }) => id !== host.id)!
  const cordoned = await post(host.name, 'cordon')
  expect([cordoned.status, cordoned.json]).toEqual([200, expect.objectContaining({ id: host.id, cordoned: true })])
  expect(cordoned.json).toMatchObject({ state: 'active', drain_id: null })
  // Twice is the same as once, and is no second act.
  expect((await post(host.id, 'cordon')).json.cordoned).toBe(true)
  for (let i = 0; i < 3; i++) expect((await stack.desktop('awake')).host_id).toBe(other.id)
  await stack.ask(old.id, 'hibernate')

  expect((await post(other.name, 'cordon')).status).toBe(200)
  const { id } = await stack.desktop()
  const refused = await stack.begin(id, 'wake')
  expect(await stack.settled(refused.id)).toMatchObject({ state: 'failed', error_code: 'no_host' })
  expect((await stack.causes(id))[0]).toContain(`${host.name} is cordoned`)

  expect((await post(host.name, 'uncordon')).json.cordoned).toBe(false)
  expect((await stack.ask(id, 'wake')).result?.host_id).toBe(host.id)
  expect(await audited()).toEqual(['host.cordon', 'host.cordon', 'host.uncordon'])
})

test('an operator’s first wake uses the host that is named, cordoned or not, and no other one', async () => {
  await using stack = await Stack.start({ hosts: 2 })
  const { post, wakeOn } = await operatorOf(stack)
  const [named, other] = stack.hosts as [Host, Host]
  await post(named.name, 'cordon')
  const { id } = await stack.desktop()
  named.driver.faults.failNext('makeDisk', 1, 'host_disk_full')
  expect((await wakeOn(id, named.id)).json).toMatchObject({ state: 'failed', error_code: 'host_disk_full' })
  expect(await other.holds(id)).toEqual({ domain: 'absent', disk: false })
  expect((await wakeOn(id, named.name)).json).toMatchObject({ kind: 'wake', result: { host_id: named.id } })
  await stack.ask(id, 'hibernate')
  expect((await wakeOn(id, other.id)).json.code).toBe('wrong_state')
  expect((await wakeOn(id, 'nowhere')).status).toBe(404)
})

test('a host that does not exist, or that was removed, cannot be cordoned; no customer may', async () => {
  await using stack = await Stack.start()
  const { post } = await operatorOf(stack)
  expect((await post('nowhere', 'cordon')).status).toBe(404)
  expect((await stack.api('POST', `/admin/v1/hosts/${stack.host.id}/cordon`, { body: {} })).status).toBe(403)
  await stack.database.rows('update hosts set removed_at = now() where id = $1', [stack.host.id])
  expect((await post(stack.host.id, 'cordon')).status).toBe(404)
})

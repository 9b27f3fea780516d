// Guarantee: whatever an operator does is in the audit log, and an operator can read there, page by page, who took what
// from whom; nobody else can.
import { ImageServer } from '@dormouse/agent/testing/image-server.ts'
import { createAdminClient } from '@dormouse/client'
import { newId } from '@dormouse/contract'
import type { App } from '@dormouse/control-plane/http/app.ts'
import { AuditTrail } from '@dormouse/control-plane/http/audit-trail.ts'
import { createServer } from '@dormouse/control-plane/http/server.ts'
import { createLog } from '@dormouse/process'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { ApiAnswer } from './parts/api.ts'

interface Walk {
  stack: Stack
  ask(path: string, body?: object): Promise<ApiAnswer>
}

/** Every route by which an operator changes something: one success of it, and what it was done to. */
const walks: Record<string, (walk: Walk) => Promise<string>> = {
  'POST /admin/v1/orgs': async ({ ask }) => (await ask('', { name: 'third' })).json.id,
  'PATCH /admin/v1/orgs/:id': async ({ stack, ask }) => {
    await ask(stack.org.id, { max_desktops: 20_000 })
    return stack.org.id
  },
  'POST /admin/v1/orgs/:id/suspend': async ({ stack, ask }) => {
    const { id } = await stack.otherOrg
    await ask(id)
    return id
  },
  'POST /admin/v1/orgs/:id/resume': async ({ stack, ask }) => {
    const { id } = await stack.otherOrg
    await ask(id)
    return id
  },
  'PUT /admin/v1/orgs/:id/quotas/:name': async ({ stack, ask }) => {
    await ask(stack.org.id, { select: 'team=qa', max_desktops: 5 })
    return stack.org.id
  },
  'DELETE /admin/v1/orgs/:id/quotas/:name': async ({ stack, ask }) => {
    await ask(stack.org.id)
    return stack.org.id
  },
  'POST /admin/v1/keys': async ({ stack, ask }) => (await ask('', { org_id: stack.org.id, name: 'ci' })).json.id,
  'DELETE /admin/v1/keys/:id': async ({ stack, ask }) => {
    const { id } = await stack.replica.parts.principals.createKey(stack.org.id, 'leaving')
    await ask(id)
    return id
  },
  'POST /admin/v1/operator-keys': async ({ ask }) => (await ask('', { name: 'second' })).json.id,
  'PATCH /admin/v1/operator-keys/:id': async ({ stack, ask }) => {
    const { id } = await stack.replica.parts.principals.makeOperatorKey({ name: 'changing' })
    await ask(id, { name: 'changed' })
    return id
  },
  'DELETE /admin/v1/operator-keys/:id': async ({ stack, ask }) => {
    const { id } = await stack.replica.parts.principals.makeOperatorKey({ name: 'leaving' })
    await ask(id)
    return id
  },
  'DELETE /admin/v1/hosts/invites/:id': async ({ stack, ask }) => {
    const { id } = await stack.replica.parts.hosts.invite('nobody')
    await ask(id)
    return id
  },
  'POST /admin/v1/hosts/invites': async ({ stack, ask }) => {
    await ask('', { name: 'another' })
    const [invite] = await stack.database.rows<{ id: string }>(`select id from host_invites where name = 'another'`)
    return invite!.id
  },
  'POST /admin/v1/hosts/:host/removal': async ({ stack, ask }) => {
    const { id, name } = await stack.addHost()
    await ask(name, { yes_lose: 0 })
    return id
  },
  'POST /admin/v1/hosts/:host/cordon': async ({ stack, ask }) => {
    await ask(stack.host.name)
    return stack.host.id
  },
  'POST /admin/v1/hosts/:host/rotate-key': async ({ stack, ask }) => {
    await ask(stack.host.name)
    await stack.linked(stack.host)
    return stack.host.id
  },
  'POST /admin/v1/hosts/:host/drop-warm-copies': async ({ stack, ask }) => {
    await ask(stack.host.name)
    return stack.host.id
  },
  'POST /admin/v1/hosts/:host/uncordon': async ({ stack, ask }) => {
    const { id, name } = await stack.addHost()
    await stack.database.rows('update hosts set cordoned_at = now() where id = $1', [id])
    await ask(name)
    return id
  },
  'POST /admin/v1/hosts/:host/drain': async ({ stack, ask }) => {
    const { id } = await stack.addHost()
    await ask(id, {})
    return id
  },
  'POST /admin/v1/drains/:id/cancel': async ({ stack, ask }) => {
    const host = await stack.addHost()
    // What never arrives keeps the drain from ending by itself.
    await stack.database.rows(
      `insert into arrivals (desktop_id, operation_id, host_id, vcpus, memory_mib, disk_gib)
       values (gen_random_uuid(), gen_random_uuid(), $1, 0, 0, 0)`,
      [host.id],
    )
    const { id } = await stack.replica.parts.wings.drains.drains.start(host.id, {}, async () => undefined)
    await ask(id!)
    return id!
  },
  'POST /admin/v1/hosts/:host/loss': async ({ stack, ask }) => {
    const { id } = await stack.addHost()
    await stack.killAgent(stack.hosts.length - 1)
    await stack.database.rows(`update hosts set last_heartbeat_at = now() - interval '1 minute' where id = '${id}'`)
    await ask(id, { yes_lose: 0 })
    return id
  },
  'POST /admin/v1/hosts/:host/return': async ({ stack, ask }) => {
    const { id } = await stack.addHost()
    await stack.database.rows(`update hosts set lost_at = now() where id = '${id}'`)
    await ask(id)
    return id
  },
  'POST /admin/v1/images': async ({ ask }) => {
    await using server = await ImageServer.start(1_000, { name: 'own' })
    const { name, version } = (await ask('', { name: 'own', version: '1', from: server.url })).json
    return `${name}@${version}`
  },
  'POST /admin/v1/images/:image/use': async ({ ask }) => {
    const { name, version } = (await ask('own@1')).json
    return `${name}@${version}`
  },
  'POST /admin/v1/images/:image/retire': async ({ stack, ask }) => {
    await stack.database.rows(`insert into images values ('own', '2', 'digest', 'http://images/', 1)`)
    await ask('own@2')
    return 'own@2'
  },
  'POST /admin/v1/hosts/:host/trust': async ({ stack, ask }) => {
    await ask(stack.host.name)
    return stack.host.id
  },
  'POST /admin/v1/upgrades': async ({ ask }) => (await ask('', {})).json.id,
  'POST /admin/v1/upgrades/:id/cancel': async ({ stack, ask }) => {
    const id = newId()
    await stack.database.rows('update upgrades set settled_at = now() where settled_at is null')
    await stack.database.rows(`insert into upgrades (id, state, batch, timeout_secs) values ($1, 'running', 1, 600)`, [
      id,
    ])
    await ask(id)
    return id
  },
  'POST /admin/v1/desktops/:id/move': async ({ stack, ask }) => {
    const { id } = await stack.desktop('hibernated')
    await ask(id, {})
    await stack.settle()
    return id
  },
  'POST /admin/v1/desktops/:id/wake': async ({ stack, ask }) => {
    const { id } = await stack.desktop()
    await ask(id, { host: stack.host.name })
    await stack.settle()
    return id
  },
  'POST /admin/v1/desktops/:id/destroy': async ({ stack, ask }) => {
    const { id } = await stack.desktop()
    await ask(id)
    await stack.settle()
    return id
  },
  'POST /admin/v1/desktops/:id/hibernate': async ({ stack, ask }) => {
    const { id } = await stack.desktop('awake')
    await ask(id)
    await stack.settle()
    return id
  },
}

test('every act of an operator is in the audit log: by whom, what, and to what', async () => {
  await using stack = await Stack.start()
  const { principals, acts } = stack.replica.parts
  const operatorKey = await principals.createOperatorKey('ops')
  const [operator] = await stack.database.rows<{ id: string }>('select id from keys where org_id is null')
  const newest = async () => (await stack.api('GET', '/admin/v1/audit?limit=1', { key: operatorKey })).json.entries[0]
  expect(Object.keys(walks).sort()).toEqual([...acts.byRoute.keys()].sort())
  for (const [route, action] of acts.byRoute) {
    const [method, path] = route.split(' ') as [string, string]
    const ask = async (name: string, body?: object) => {
      const answer = await stack.api(method, path.replace(/:\w+/, name).replace(':name', 'qa'), {
        body,
        key: operatorKey,
      })
      expect([route, answer.status, answer.text]).toEqual([route, expect.toSatisfy((n) => n < 300), answer.text])
      return answer
    }
    const subject = await walks[route]!({ stack, ask })
    expect([route, await newest()]).toEqual([
      route,
      expect.objectContaining({ actor: `key:${operator!.id}`, action, subject }),
    ])
  }
})

test('what was refused is no act, and an act that cannot be written down is not done', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  const create = () => stack.api('POST', '/admin/v1/orgs', { body: { name: 'third' }, key: operatorKey })
  expect((await stack.api('POST', '/admin/v1/orgs', { body: {}, key: operatorKey })).status).toBe(400)
  expect(await stack.database.rows('select 1 from audit_log')).toEqual([])
  await stack.database.rows('alter table audit_log add constraint nobody check (false)')
  stack.chronicle.foresee(/^a request failed$/)
  expect((await create()).status).toBe(500)
  expect(await stack.database.rows(`select 1 from organisations where name = 'third'`)).toEqual([])
})

test('a route that names no audit action is not registered, and one that writes no entry gets a 500', async () => {
  const log = createLog({ name: 'test', level: 'silent' })
  const app: App = createServer({
    log,
    stallMs: 1_000,
    trustedProxies: [],
    hold: () => undefined,
    unroutable: async () => undefined,
    upgrades: () => false,
  })
  new AuditTrail(async () => undefined).watch(app, () => 'nobody')
  const post = (act?: string) => app.post(`/${act}`, { schema: act ? { act } : {} }, async () => ({ done: true }))
  expect(() => post()).toThrow('POST /undefined names no audit action')
  post('forgotten')
  expect((await app.inject({ method: 'POST', url: '/forgotten' })).statusCode).toBe(500)
  await app.close()
})

test('takeovers are listed newest first, by pages and by desktop, for operators only', async () => {
  await using stack = await Stack.start()
  const { principals } = stack.replica.parts
  const operatorKey = await principals.createOperatorKey('ops')
  const other = (await principals.createKey(stack.org.id, 'other')).api_key
  const [one, two] = [await stack.desktop('awake'), await stack.desktop('awake')]
  for (const [id, key] of [
    [one.id, stack.org.key],
    [one.id, other],
    [two.id, stack.org.key],
    [two.id, other],
    [one.id, stack.org.key],
  ] as const) {
    const body = { claim: 'view', takeover: true }
    expect((await stack.api('POST', `/v1/desktops/${id}/stream`, { body, key })).status).toBe(200)
  }
  const admin = createAdminClient({ baseUrl: stack.url, operatorKey, retries: 0 })
  const all = await admin.listAudit()
  expect(all.next).toBeUndefined()
  expect(all.entries.map(({ subject }) => subject)).toEqual([one.id, two.id, one.id])
  expect(all.entries[0]).toMatchObject({ action: 'stream.takeover', details: { claim: 'view' } })
  const first = await admin.listAudit({ limit: 2 })
  const second = await admin.listAudit({ limit: 2, cursor: first.next! })
  expect([...first.entries, ...second.entries]).toEqual(all.entries)
  expect(second.next).toBeUndefined()
  expect((await admin.listAudit({ subject: two.id })).entries).toHaveLength(1)
  expect((await admin.listAudit({ action: 'stream.takeover', until: all.entries[0]!.at })).entries).toHaveLength(2)
  expect((await admin.listAudit({ action: 'org.create' })).entries).toEqual([])
  for (const actor of ['other', all.entries[0]!.actor, all.entries[0]!.actor.replace('key:', '')]) {
    const { entries } = await admin.listAudit({ actor, since: all.entries.at(-1)!.at })
    expect(new Set(entries.map(({ actor_name }) => actor_name)).size).toBe(1)
    expect(entries.length).toBeGreaterThan(0)
  }
  for (const bad of ['limit=0', 'limit=1001', 'cursor=x', 'cursor=', 'subject=', 'actor=', 'since=yesterday'])
    expect([bad, (await stack.api('GET', `/admin/v1/audit?${bad}`, { key: operatorKey })).status]).toEqual([bad, 400])
  expect((await stack.api('GET', '/admin/v1/audit')).status).toBe(403)
  expect((await stack.api('GET', '/admin/v1/audit', { key: null })).status).toBe(401)
})

// Guarantee: a key that a customer makes may do what it says, with the desktops that it says, and nothing else on any way into the
// service; no longer than it lasts; and what it makes may do no more.
import { createHash } from 'node:crypto'
import { request } from 'node:http'
import { createAdminClient, createClient } from '@dormouse/client'
import { type CreatedOwnKeyJson, type EventJson, rights } from '@dormouse/contract'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import type { ApiWish } from './parts/api.ts'
import { ExecClient } from './parts/exec-client.ts'
import { audience, IdentityProvider } from './parts/identity-provider.ts'
import { RfbClient } from './parts/rfb-client.ts'
import { WebhookReceiver } from './parts/webhook-receiver.ts'

const every = [...rights]

async function make(stack: Stack, wish: object, key?: string): Promise<CreatedOwnKeyJson> {
  const body = { name: 'made', can: every, ...wish }
  const { status, json, text } = await stack.api('POST', '/v1/keys', { body, ...(key && { key }) })
  if (status !== 201) throw new Error(`${status} ${text}`)
  return json
}

const make403 = async (stack: Stack, wish: object, key: string) => {
  const { status, json } = await stack.api('POST', '/v1/keys', { body: { name: 'made', ...wish }, key })
  return [status, json.code, json.right]
}

test('a key is shown once, listed without itself, used, and revoked; an operator sees who made it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { api_key: key, ...made } = await make(stack, { can: ['power', 'see'], select: 'team == qa, team=qa' })
  const maker = (await stack.api('GET', '/v1/keys')).json.keys[0]
  expect(made).toEqual({
    id: expect.any(String),
    name: 'made',
    can: ['see', 'power'],
    select: 'team=qa',
    desktop_id: null,
    made_by: `key:${maker.id}`,
    created_at: expect.any(String),
    expires_at: null,
    last_used_at: null,
  })
  expect(maker).toMatchObject({ can: every, select: null, desktop_id: null, made_by: null, expires_at: null })
  expect((await stack.api('GET', '/v1/desktops', { key })).status).toBe(200)
  const listed = await waitFor('its use to be noted', async () => {
    const { keys } = (await stack.api('GET', '/v1/keys')).json
    return keys[1].last_used_at && keys
  })
  expect(listed).toEqual([expect.anything(), { ...made, last_used_at: expect.any(String) }])
  expect((await stack.api('DELETE', `/v1/keys/${made.id}`)).status).toBe(204)
  expect((await stack.api('DELETE', `/v1/keys/${made.id}`)).status).toBe(204)
  expect((await stack.api('GET', '/v1/desktops', { key })).status).toBe(401)
  expect((await stack.api('GET', '/v1/keys')).json.keys).toHaveLength(1)
  const admin = createAdminClient({
    baseUrl: stack.url,
    operatorKey: await stack.replica.parts.principals.createOperatorKey('ops'),
  })
  const { entries } = await admin.listAudit({ subject: made.id })
  expect(entries.map(({ actor, action }) => [actor, action])).toEqual([
    [`key:${maker.id}`, 'key.revoke'],
    [`key:${maker.id}`, 'key.create'],
  ])
  expect((await admin.listKeys(stack.org.id)).keys[1]).toMatchObject({ select: 'team=qa', made_by: `key:${maker.id}` })
})

test.each<[field: string, body: object]>([
  ['name', { can: ['see'] }],
  ['can', { name: 'x' }],
  ['can', { name: 'x', can: [] }],
  ['can', { name: 'x', can: ['see', 'fly'] }],
  ['can', { name: 'x', can: 'see' }],
  ['select', { name: 'x', can: ['see'], select: 'team=' + '(' }],
  ['desktop_id', { name: 'x', can: ['see'], desktop_id: 'x' }],
  ['desktop_id', { name: 'x', can: ['see'], select: 'a', desktop_id: '01980f3e-7a5c-7c1e-9d54-1c2f5e6a7b80' }],
  ['expires_in_secs', { name: 'x', can: ['see'], expires_in_secs: 0 }],
  ['rights', { name: 'x', can: ['see'], rights: [] }],
])('a wish with a wrong %s is refused by its name: %j', async (field, body) => {
  await using stack = await Stack.start({ hosts: 0 })
  const { status, json } = await stack.api('POST', '/v1/keys', { body })
  expect([status, json.field.split('.')[0]]).toEqual([400, field])
})

test('a key makes, sees and revokes only keys that may do no more than itself', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const mine = await stack.desktop('created', { labels: { team: 'qa' } })
  const other = await stack.desktop('created')
  const { api_key: key, id } = await make(stack, { can: ['see', 'admin'], select: 'team=qa,env in (b,a)' })
  const wider = [
    { can: ['see', 'use'], select: 'team=qa,env in (a,b)' },
    { can: ['see'] },
    { can: ['see'], select: 'team=qa' },
    { can: ['see'], select: 'team=qa,env=a' },
    { can: ['see'], desktop_id: mine.id },
  ]
  const lacks = await Promise.all(wider.map((wish) => make403(stack, wish, key)))
  expect(lacks).toEqual([
    [403, 'not_allowed', 'use'],
    ...Array.from({ length: 4 }, () => [403, 'not_allowed', 'admin']),
  ])
  const narrower = await make(stack, { can: ['see'], select: 'run=1,env in (a,b),team=qa' }, key)
  const foreign = await make(stack, { can: ['see'] })
  const listed = (await stack.api('GET', '/v1/keys', { key })).json.keys
  expect(listed.map((one: { id: string }) => one.id)).toEqual([id, narrower.id])
  expect((await stack.api('DELETE', `/v1/keys/${foreign.id}`, { key })).status).toBe(404)
  expect((await stack.api('DELETE', `/v1/keys/${narrower.id}`, { key })).status).toBe(204)
  const theirs = await stack.otherOrg
  expect((await stack.api('DELETE', `/v1/keys/${foreign.id}`, { key: theirs.key })).status).toBe(404)
  // A key of one desktop.
  const single = (await make(stack, { desktop_id: mine.id })).api_key
  expect(await make403(stack, { can: ['see'], desktop_id: other.id }, single)).toEqual([403, 'not_allowed', 'admin'])
  expect(await make403(stack, { can: ['see'], select: 'team=qa' }, single)).toEqual([403, 'not_allowed', 'admin'])
  expect((await make(stack, { can: ['see'], desktop_id: mine.id }, single)).desktop_id).toBe(mine.id)
  const body = { name: 'x', can: ['see'], desktop_id: mine.id }
  expect((await stack.api('POST', '/v1/keys', { body, key: theirs.key })).status).toBe(404)
})

test('lists, events, usage, bulks, names and replays are of the desktops that a key reaches', async () => {
  await using stack = await Stack.start()
  const mine = await stack.desktop('awake', { labels: { team: 'qa' }, name: 'mine' })
  const other = await stack.desktop('awake', { labels: { team: 'dev' }, name: 'other' })
  const keys = [
    (await make(stack, { select: 'team=qa' })).api_key,
    (await make(stack, { desktop_id: mine.id })).api_key,
  ]
  for (const key of keys) {
    const ask = (method: string, path: string, wish: ApiWish = {}) => stack.api(method, path, { ...wish, key })
    const idsOf = async (path: string) => {
      const { json } = await ask('GET', path)
      return (json.desktops as { id: string; desktop_id: string }[]).map((one) => one.id ?? one.desktop_id)
    }
    expect(await idsOf('/v1/desktops')).toEqual([mine.id])
    expect(await idsOf('/v1/desktops?select=team')).toEqual([mine.id])
    expect(await idsOf('/v1/desktops?name=other')).toEqual([])
    expect(await idsOf('/v1/usage')).toEqual([mine.id])
    expect((await ask('GET', '/v1/quotas')).json.desktops).toBe(1)
    const { events } = (await ask('GET', '/v1/events?limit=1000')).json
    expect(new Set(events.map(({ desktop_id }: EventJson) => desktop_id))).toEqual(new Set([mine.id]))
    expect((await ask('GET', `/v1/events?limit=10&desktop_id=${other.id}`)).json.events).toEqual([])
    const planned = (body: object) => ask('POST', '/v1/desktops/bulk', { body: { dry_run: true, ...body } })
    const { json: selected } = await planned({ action: 'hibernate', select: 'team' })
    expect(selected.desktops.map((one: { desktop_id: string }) => one.desktop_id)).toEqual([mine.id])
    const { json: named } = await planned({ action: 'hibernate', ids: [other.id] })
    expect(named.desktops[0]).toMatchObject({
      name: null,
      state: null,
      status: 'skipped',
      reason: { code: 'not_found' },
    })
    const taken = await ask('PATCH', `/v1/desktops/${mine.id}`, { body: { name: 'other' } })
    expect([taken.status, taken.json.code, taken.json.desktop_id]).toEqual([409, 'name_taken', undefined])
  }
  const key = keys[0]!
  const create = (body: object, headers = {}) =>
    stack.api('POST', '/v1/desktops', { body: { tier: 'small', ...body }, headers, key })
  const wanted = await create({ name: 'other', get_or_create: true, labels: { team: 'qa' } })
  expect([wanted.status, wanted.json.code, wanted.json.desktop_id]).toEqual([409, 'name_taken', undefined])
  const outside = await create({ labels: { team: 'dev' } })
  expect([outside.status, outside.json.code, outside.json.right]).toEqual([403, 'not_allowed', 'create'])
  await stack.api('POST', '/v1/desktops', { body: { tier: 'small' }, headers: { 'idempotency-key': 'k' } })
  const replayed = await create({ labels: { team: 'qa' } }, { 'idempotency-key': 'k' })
  expect([replayed.status, replayed.json.code]).toEqual([409, 'conflict'])
  const away = await stack.api('PATCH', `/v1/desktops/${mine.id}`, { body: { labels: { team: 'dev' } }, key })
  expect([away.status, away.json.right]).toEqual([403, 'admin'])
  expect((await stack.see(mine.id)).labels).toEqual({ team: 'qa' })
  expect((await create({ labels: { team: 'qa' } })).status).toBe(201)
})

test('a bulk of a key does nothing to what the key no longer reaches, and exists for keys that reach as much', async () => {
  await using stack = await Stack.start()
  const [stays, leaves] = [
    await stack.desktop('created', { labels: { team: 'qa' } }),
    await stack.desktop('created', { labels: { team: 'qa' }, name: 'leaves' }),
  ]
  const { api_key: key } = await make(stack, { select: 'team=qa' })
  const { api_key: narrower } = await make(stack, { select: 'team=qa,run=1' })
  const { api_key: onlySees } = await make(stack, { can: ['see', 'power'], select: 'team=qa' })
  // Its desktops are chosen, and the leader looks at them only after one was taken away.
  const release = await stack.database.hold(`update desktops set labels = '{"team":"dev"}' where id = '${leaves.id}'`)
  const plan = await stack.api('POST', '/v1/desktops/bulk', {
    body: { action: 'label', labels: { seen: 'yes' }, select: 'team' },
    headers: { 'idempotency-key': 'plan' },
    key,
  })
  expect([plan.status, plan.json.progress.total]).toEqual([202, 2])
  await release()
  const path = `/v1/desktops/bulk/${plan.json.id}`
  const done = await waitFor('the plan to settle', async () => {
    const { json } = await stack.api('GET', path, { key })
    return json.settled_at !== null && json
  })
  const rows = Object.fromEntries(done.desktops.map((row: { desktop_id: string }) => [row.desktop_id, row]))
  expect(rows[stays.id]).toMatchObject({ status: 'succeeded', state: 'created' })
  expect(rows[leaves.id]).toMatchObject({ status: 'skipped', reason: { code: 'not_found' }, name: null, state: null })
  expect((await stack.see(leaves.id)).labels).toEqual({ team: 'dev' })
  for (const [method, at] of [
    ['GET', path],
    ['POST', `${path}/cancel`],
  ] as const) {
    expect([at, (await stack.api(method, at, { key: narrower })).status]).toEqual([at, 404])
    expect([at, (await stack.api(method, at)).status]).toEqual([at, 200])
  }
  const refused = await stack.api('POST', `${path}/cancel`, { key: onlySees })
  expect([refused.status, refused.json.right]).toEqual([403, 'admin'])
  const replay = await stack.api('POST', '/v1/desktops/bulk', {
    body: { action: 'wake', select: 'team' },
    headers: { 'idempotency-key': 'plan' },
    key: narrower,
  })
  expect([replay.status, replay.json.code]).toEqual([409, 'conflict'])
})

interface Open {
  name: string
  /** How it ended. */
  ended: Promise<unknown>
}

/** Everything that lasts, of this key, at this replica. */
async function openAll(url: string, key: string, id: string, exec: string): Promise<Open[]> {
  const client = createClient({ baseUrl: url, apiKey: key, retries: 0 })
  let isFollowed = false
  const events = (async () => {
    for await (const _ of client.events({ onCursor: () => (isFollowed = true) })) isFollowed = true
  })().catch((error: Error) => error.message)
  await waitFor('the stream to begin', () => isFollowed)
  const terminal = new ExecClient(`${url}/v1/desktops/${id}/execs/${exec}/attach`, key)
  await terminal.note('attached')
  const { websocket_url } = await client.openStream(id, { claim: 'view', takeover: true })
  const screen = await RfbClient.connect(websocket_url.replace(/^ws:\/\/[^/]+/, url.replace('http', 'ws')))
  const watch = await opened(`${url}/v1/desktops/${id}/watch?path=/srv`, key, 'GET')
  const command = opened(`${url}/v1/desktops/${id}/exec`, key, 'POST', { command: 'sleep 600', timeout_secs: 600 })
  return [
    { name: 'events', ended: events },
    { name: 'terminal', ended: terminal.closed },
    { name: 'screen', ended: screen.closed },
    { name: 'watch', ended: watch.ended },
    { name: 'exec', ended: command.then(({ ended }) => ended) },
  ]
}

/** A request whose answer takes long; resolves when the answer begins, or when there will be none. */
function opened(url: string, key: string, method: string, body?: object): Promise<{ ended: Promise<string> }> {
  const { promise, resolve } = Promise.withResolvers<{ ended: Promise<string> }>()
  const ended = Promise.withResolvers<string>()
  const headers = { authorization: `Bearer ${key}`, accept: 'text/event-stream, application/json' }
  const sent = request(url, { method, headers, agent: false }, (answer) => {
    if (answer.statusCode !== 200) return ended.resolve(`refused with ${answer.statusCode}`)
    answer.resume().on('close', () => ended.resolve('cut'))
    resolve({ ended: ended.promise })
  })
  sent.on('error', () => {
    ended.resolve('cut')
    resolve({ ended: ended.promise })
  })
  sent.end(body && JSON.stringify(body))
  return promise
}

test('a key that is revoked at one replica, expires, or loses its desktop has nothing open at another within seconds', async () => {
  await using stack = await Stack.start({ replicas: 2 })
  const url = stack.replicas[1]!.url
  const label = (id: string, team: string) => stack.client.changeDesktop(id, { labels: { team } })
  const { id } = await stack.desktop('awake', { labels: { team: 'qa' } })
  const exec = (await stack.api('POST', `/v1/desktops/${id}/execs`, { body: { command: 'sleep 600' } })).json.id
  const held = await openAll(url, stack.org.key, id, exec)
  // The claim on its screen is taken over by the next key.
  const others = new Set<string>()
  for (const { name, ended } of held) void ended.finally(() => others.add(name))
  const cases: [why: string, wish: object, end: (keyId: string) => Promise<unknown>][] = [
    ['revoked', {}, (keyId) => stack.api('DELETE', `/v1/keys/${keyId}`)],
    ['expired', { expires_in_secs: 5 }, async () => undefined],
    ['relabelled', { select: 'team=qa' }, () => label(id, 'dev')],
  ]
  for (const [why, wish, end] of cases) {
    const key = await make(stack, wish)
    const open = await openAll(url, key.api_key, id, exec)
    await end(key.id)
    const ways = await Promise.all(
      open.map(({ name, ended }) => {
        // Its stream of events goes on, without this desktop.
        if (why === 'relabelled' && name === 'events') return undefined
        return waitForEnd(`${name}, ${why}`, ended)
      }),
    )
    const status = (await fetch(`${url}/v1/desktops/${id}`, { headers: { authorization: `Bearer ${key.api_key}` } }))
      .status
    expect([why, status]).toEqual([why, why === 'relabelled' ? 404 : 401])
    expect(ways.slice(1)).toEqual([
      expect.objectContaining({ code: 4004 }),
      expect.objectContaining({ code: 4004 }),
      'cut',
      'cut',
    ])
    if (why === 'relabelled') await stack.api('DELETE', `/v1/keys/${key.id}`)
    await waitForEnd('the stream of events', open[0]!.ended)
  }
  // Nothing else of anyone else ended. Destroying the desktop ends it.
  expect([...others]).toEqual(['screen'])
  await stack.ask(id, 'destroy')
})

/** The promise's value, once it has one. */
function waitForEnd(what: string, ended: Promise<unknown>): Promise<unknown> {
  let end: { value: unknown } | undefined
  void ended.then((value) => {
    end = { value }
  })
  return waitFor(`the end of ${what}`, () => end).then(({ value }) => value)
}

test('webhooks, events and files’ URLs of a key show nothing of a desktop that it no longer reaches', async () => {
  await using receiver = await WebhookReceiver.start()
  await using stack = await Stack.start({ controlPlane: { webhookAllowPrivate: true } })
  const { id } = await stack.desktop('awake', { labels: { team: 'qa' } })
  const { api_key: key } = await make(stack, { select: 'team=qa' })
  const hook = (body: object) => stack.api('POST', '/v1/webhooks', { body: { url: receiver.url, ...body }, key })
  const whole = await hook({})
  expect([whole.status, whole.json.right]).toEqual([403, 'admin'])
  const narrow = (await hook({ select: 'team=qa,run!=1', types: ['desktop.state'] })).json
  const wider = await stack.api('PATCH', `/v1/webhooks/${narrow.id}`, { body: { select: 'team=dev' }, key })
  expect([wider.status, wider.json.code]).toEqual([403, 'not_allowed'])
  const foreign = (await stack.api('POST', '/v1/webhooks', { body: { url: `${receiver.url}/all` } })).json
  expect((await stack.api('GET', `/v1/webhooks/${foreign.id}`, { key })).status).toBe(404)
  const listed = (await stack.api('GET', '/v1/webhooks', { key })).json.webhooks
  expect(listed.map((one: { id: string; types: string[] }) => [one.id, one.types])).toEqual([
    [narrow.id, ['desktop.state']],
  ])
  // Release 0.1.0 knows no selector. It reads these types, and sends nothing.
  const stored = await stack.database.rows('select types from webhooks where id = $1', [narrow.id])
  expect(stored).toEqual([{ types: [] }])
  const file = { path: '/srv/x', method: 'PUT', once: false, expires_in_secs: 600 }
  const { url } = (await stack.api('POST', `/v1/desktops/${id}/file-urls`, { body: file, key })).json
  const put = async () => (await fetch(url, { method: 'PUT', body: 'x' })).status
  expect(await put()).toBe(200)
  const seen = (await stack.api('GET', '/v1/events?limit=1000', { key })).json.events
  expect(seen.length).toBeGreaterThan(0)
  await stack.ask(id, 'hibernate')
  const isAsleep = (path: string, more: number) =>
    receiver.at(path).filter(({ json }) => json.data.state === 'hibernated').length === more
  await waitFor('its delivery', () => isAsleep('/', 1) && isAsleep('/all', 1))

  await stack.client.changeDesktop(id, { labels: { team: 'dev' } })
  expect((await stack.api('GET', '/v1/events?limit=1000', { key })).json.events).toEqual([])
  expect(await put()).toBe(410)
  const before = receiver.at('/').length
  await stack.ask(id, 'wake')
  await stack.ask(id, 'hibernate')
  await waitFor('the others’ deliveries', () => isAsleep('/all', 2))
  expect(receiver.at('/').length).toBe(before)
})

test('an agent of a key has the tools of its rights, and its desktops', async () => {
  await using stack = await Stack.start()
  const mine = await stack.desktop('awake', { labels: { team: 'qa' } })
  const other = await stack.desktop('awake')
  const toolsOf = async (key: string) => {
    const agent = new Client({ name: 'test', version: '1' })
    const requestInit = { headers: { authorization: `Bearer ${key}` } }
    await agent.connect(new StreamableHTTPClientTransport(new URL(`${stack.url}/mcp`), { requestInit }))
    const names = (await agent.listTools()).tools.map(({ name }) => name)
    const call = async (name: string, args: Record<string, unknown>) => {
      const { content, isError = false } = await agent.callTool({ name, arguments: args })
      return [isError, (content as { text: string }[])[0]!.text]
    }
    return { names, call, [Symbol.asyncDispose]: () => agent.close() }
  }
  await using sees = await toolsOf((await make(stack, { can: ['see'], select: 'team=qa' })).api_key)
  expect(sees.names).toContain('desktop_list')
  for (const tool of ['desktop_run', 'desktop_read_file', 'desktop_wake', 'desktop_create', 'desktop_screen'])
    expect(sees.names).not.toContain(tool)
  await using uses = await toolsOf((await make(stack, { can: ['see', 'use'], select: 'team=qa' })).api_key)
  expect(await uses.call('desktop_run', { desktop_id: mine.id, command: 'echo here' })).toEqual([
    false,
    expect.stringContaining('here'),
  ])
  expect(await uses.call('desktop_run', { desktop_id: other.id, command: 'true' })).toEqual([
    true,
    expect.stringContaining('not found'),
  ])
  await using single = await toolsOf((await make(stack, { can: ['see', 'use'], desktop_id: mine.id })).api_key)
  expect(single.names).not.toContain('desktop_list')
  expect(await single.call('desktop_run', { command: 'echo here' })).toEqual([false, expect.stringContaining('here')])
})

test('an access token is limited by its claims, and one whose claims cannot be read is no credential', async () => {
  await using provider = await IdentityProvider.start({})
  await using stack = await Stack.start({
    hosts: 0,
    controlPlane: { oidcIssuer: provider.issuer, oidcAudience: audience },
  })
  const mine = await stack.desktop('created', { labels: { team: 'qa' } })
  const other = await stack.desktop('created')
  const forge = (claims: object) => provider.forge({ org_id: stack.org.id, sub: 'someone', ...claims })
  const statuses = async (claims: object) => {
    const key = await forge(claims)
    const answers = [
      await stack.api('GET', `/v1/desktops/${mine.id}`, { key }),
      await stack.api('GET', `/v1/desktops/${other.id}`, { key }),
      await stack.api('PUT', `/v1/desktops/${mine.id}/wake-locks/a`, {
        key,
        body: { reason: 'x', expires_in_secs: 60 },
      }),
    ]
    return answers.map(({ status }) => status)
  }
  expect(await statuses({})).toEqual([200, 200, 200])
  expect(await statuses({ dormouse_can: ['see'] })).toEqual([200, 200, 403])
  expect(await statuses({ dormouse_can: 'see power', dormouse_select: 'team=qa' })).toEqual([200, 404, 200])
  expect(await statuses({ dormouse_can: [] })).toEqual([403, 403, 403])
  for (const claims of [
    ...[{ dormouse_can: 'everything' }, { dormouse_can: null }, { dormouse_can: [1] }],
    ...[{ dormouse_select: '' }, { dormouse_select: 'team=(' }, { dormouse_select: null }],
  ])
    expect([claims, await statuses(claims)]).toEqual([claims, [401, 401, 401]])
  const key = await forge({ dormouse_can: 'see admin', dormouse_select: 'team=qa' })
  expect(await make403(stack, { can: ['see'], select: 'team' }, key)).toEqual([403, 'not_allowed', 'admin'])
  const made = await make(stack, { can: ['see'], select: 'team=qa' }, key)
  expect(made.made_by).toBe(`jwt:${provider.issuer}:someone`)
})

test('keys with every right are found as release 0.1.0 finds them, those with limits are not; a check costs one look-up', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const found = async (key: string) =>
    (await stack.database.rows('select 1 from keys where hash = $1', [createHash('sha256').update(key).digest()]))
      .length
  expect(await found(stack.org.key)).toBe(1)
  expect(await found((await make(stack, {})).api_key)).toBe(1)
  for (const limits of [{ can: ['see'] }, { select: 'a' }, { expires_in_secs: 60 }])
    expect([limits, await found((await make(stack, limits)).api_key)]).toEqual([limits, 0])
  const { principals } = stack.replica.parts
  const { api_key: key } = await make(stack, { can: ['see'], select: 'a' })
  const release = await stack.database.hold('lock table keys in access exclusive mode')
  const requests = Promise.all(Array.from({ length: 20 }, () => principals.authenticate(`Bearer ${key}`)))
  const lookUps = () =>
    stack.database.rows(
      `select 1 from pg_stat_activity
        where datname = current_database() and wait_event_type = 'Lock' and query like '%from keys where hash%'`,
    )
  await waitFor('a look-up', async () => (await lookUps()).length > 0)
  expect(await lookUps()).toHaveLength(1)
  await release()
  expect(new Set((await requests).map((one) => one.kind === 'customer' && one.can?.join()))).toEqual(new Set(['see']))
})

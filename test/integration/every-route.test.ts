// Guarantee: on every route alike, what is not the caller's does not exist, what is malformed is named, and a body is bounded.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { newId } from '@dormouse/contract'
import { expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import type { ApiAnswer, ApiWish } from './parts/api.ts'

/** Every customer route that names a thing, with a body it would take. */
const named: [method: string, path: (id: string) => string, wish: ApiWish][] = [
  ['GET', (id) => `/v1/desktops/${id}`, {}],
  ['GET', (id) => `/v1/desktops/${id}?include=metrics`, {}],
  ['GET', (id) => `/v1/desktops/${id}/metrics`, {}],
  ['GET', (id) => `/v1/desktops/${id}/operations`, {}],
  ['POST', (id) => `/v1/desktops/${id}/wake`, {}],
  ['POST', (id) => `/v1/desktops/${id}/hibernate`, {}],
  ['POST', (id) => `/v1/desktops/${id}/destroy`, {}],
  ['POST', (id) => `/v1/desktops/${id}/wake?wait=true`, { body: { expected_generation: 99 } }],
  ['POST', (id) => `/v1/desktops/${id}/destroy`, { headers: { 'idempotency-key': 'used' } }],
  ['POST', (id) => `/v1/desktops/${id}/exec`, { body: { command: 'true' } }],
  ['POST', (id) => `/v1/desktops/${id}/execs`, { body: { command: 'true' } }],
  ['GET', (id) => `/v1/desktops/${id}/execs`, {}],
  ['GET', (id) => `/v1/desktops/${id}/execs/${id}`, {}],
  ['DELETE', (id) => `/v1/desktops/${id}/execs/${id}`, {}],
  ['GET', (id) => `/v1/desktops/${id}/execs/${id}/output`, {}],
  ['GET', (id) => `/v1/desktops/${id}/execs/${id}/attach`, {}],
  ['POST', (id) => `/v1/desktops/${id}/execs/${id}/stdin?offset=0`, { body: 'text' }],
  ['POST', (id) => `/v1/desktops/${id}/execs/${id}/signal`, { body: { signal: 15 } }],
  ['POST', (id) => `/v1/desktops/${id}/execs/${id}/resize`, { body: { cols: 80, rows: 24 } }],
  ['POST', (id) => `/v1/desktops/${id}/stream`, { body: { claim: 'view' } }],
  ['GET', (id) => `/v1/desktops/${id}/entries?path=/srv`, {}],
  ['POST', (id) => `/v1/desktops/${id}/entries`, { body: { action: 'mkdir', path: '/srv/x' } }],
  ['POST', (id) => `/v1/desktops/${id}/uploads?path=/srv/x`, {}],
  ['GET', (id) => `/v1/desktops/${id}/uploads/${id}`, {}],
  [
    'PATCH',
    (id) => `/v1/desktops/${id}/uploads/${id}`,
    { body: 'x', headers: { 'upload-offset': '0', 'upload-complete': '?1' } },
  ],
  ['DELETE', (id) => `/v1/desktops/${id}/uploads/${id}`, {}],
  ['GET', (id) => `/v1/desktops/${id}/archives/srv`, {}],
  ['PUT', (id) => `/v1/desktops/${id}/archives/srv`, { body: 'x' }],
  ['GET', (id) => `/v1/desktops/${id}/watch?path=/srv`, {}],
  ['DELETE', (id) => `/v1/desktops/${id}/watch?path=/srv&cursor=${id}.0.LPMUzhXx`, {}],
  ['POST', (id) => `/v1/desktops/${id}/file-urls`, { body: { path: '/srv/x', method: 'GET' } }],
  ['GET', (id) => `/v1/desktops/${id}/file-urls`, {}],
  ['DELETE', (id) => `/v1/desktops/${id}/file-urls/${id}`, {}],
  ['GET', (id) => `/v1/desktops/${id}/screenshot`, {}],
  ['GET', (id) => `/v1/desktops/${id}/screenshot?fit=320`, {}],
  ['GET', (id) => `/v1/desktops/${id}/screen`, {}],
  ['GET', (id) => `/v1/desktops/${id}/clipboard`, {}],
  ['PUT', (id) => `/v1/desktops/${id}/clipboard`, { body: { text: 'x' } }],
  ['POST', (id) => `/v1/desktops/${id}/input`, { body: { actions: [{ type: 'click', x: 1, y: 1 }] } }],
  ['PATCH', (id) => `/v1/desktops/${id}`, { body: { idle_timeout_secs: 5 } }],
  ['GET', (id) => `/v1/desktops/${id}/idle`, {}],
  ['PUT', (id) => `/v1/desktops/${id}/wake-locks/one`, { body: { reason: 'a build', expires_in_secs: 60 } }],
  ['DELETE', (id) => `/v1/desktops/${id}/wake-locks/one`, {}],
  ['GET', (id) => `/v1/webhooks/${id}`, {}],
  ['PATCH', (id) => `/v1/webhooks/${id}`, { body: { enabled: false } }],
  ['DELETE', (id) => `/v1/webhooks/${id}`, {}],
  ['POST', (id) => `/v1/webhooks/${id}/rotate-secret`, {}],
  ['POST', (id) => `/v1/webhooks/${id}/test`, {}],
  ['GET', (id) => `/v1/webhooks/${id}/deliveries`, {}],
  ['GET', (id) => `/v1/webhooks/${id}/deliveries/${id}`, {}],
  ['POST', (id) => `/v1/webhooks/${id}/deliveries/${id}/redeliver`, {}],
  ['POST', (id) => `/v1/webhooks/${id}/redeliver`, { body: { since: '2026-01-01T00:00:00Z' } }],
]
const routes: typeof named = [
  ...named,
  ['GET', () => '/v1/desktops', {}],
  ['POST', () => '/v1/desktops', { body: { tier: 'small' } }],
  ['GET', () => '/v1/images', {}],
  ['GET', () => '/v1/tiers', {}],
  ['GET', () => '/v1/quotas', {}],
  ['GET', () => '/v1/webhooks', {}],
  ['POST', () => '/v1/webhooks', { body: { url: 'https://example.com/' } }],
  ['GET', (id) => `/v1/operations/${id}`, {}],
  ['POST', (id) => `/v1/desktops/${id}/fork`, {}],
  ['GET', () => '/v1/nothing/here', {}],
]

/** An answer without what may differ between any two. */
function sameness({ status, headers, text }: ApiAnswer) {
  const { date: _date, 'x-request-id': _id, ...rest } = headers
  return { status, headers: rest, text }
}

test('a desktop of another organisation is byte for byte a missing one, on every route', async () => {
  await using stack = await Stack.start()
  const other = await stack.otherOrg
  const { id } = await stack.desktop('awake')
  await stack.api('POST', `/v1/desktops/${id}/wake`, { headers: { 'idempotency-key': 'used' } })
  for (const [method, path, wish] of named) {
    const foreign = await stack.api(method, path(id), { ...wish, key: other.key })
    const missing = await stack.api(method, path(newId()), { ...wish, key: other.key })
    expect(foreign.status, path(id)).toBe(404)
    expect(sameness(foreign), path(id)).toEqual(sameness(missing))
  }
  const operation = await stack.begin(id, 'hibernate')
  await stack.settled(operation.id)
  const foreign = await stack.api('GET', `/v1/operations/${operation.id}`, { key: other.key })
  expect(sameness(foreign)).toEqual(sameness(await stack.api('GET', `/v1/operations/${newId()}`, { key: other.key })))
  expect((await stack.api('GET', '/v1/desktops', { key: other.key })).json.desktops).toEqual([])
})

test('there is one 404 of what is missing, and one of paths and ways to upgrade that no route takes', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const asked = [...named.map(([method, path, wish]) => [method, path(newId()), wish] as const)]
  const get = (path: string) => ['GET', path, {}] as const
  const textsOf = async (requests: (typeof asked)[number][]) => {
    const texts = new Set<string>()
    for (const [method, path, wish] of requests) {
      const { status, text } = await stack.api(method, path, wish)
      expect([path, status]).toEqual([path, 404])
      texts.add(text)
    }
    return texts
  }
  expect((await textsOf([...asked, get(`/v1/operations/${newId()}`)])).size).toBe(1)
  const texts = await textsOf(['/v1/nothing', '/v1/desktops/a/b/c', '/nothing', '/v2/desktops', '/metric'].map(get))
  const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
  socket.write('GET /nothing HTTP/1.1\r\nhost: x\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n')
  const upgrade = Buffer.concat(await socket.toArray()).toString()
  expect(upgrade.slice(0, 12)).toBe('HTTP/1.1 404')
  texts.add(upgrade.slice(upgrade.indexOf('\r\n\r\n') + 4))
  expect([...texts].map((text) => JSON.parse(text))).toMatchObject([
    { status: 404, code: 'no_such_route', detail: expect.stringMatching(/^no such route; /) },
  ])
})

test('without a live credential every route is 401 before anything else, also an unknown one with a broken body', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { principals } = stack.replica.parts
  const operator = await principals.createOperatorKey('ops')
  const revoked = await principals.createKey(stack.org.id, 'revoked')
  await principals.revokeKey(revoked.id)
  const broken = stack.org.key.slice(0, -1) + (stack.org.key.endsWith('a') ? 'b' : 'a')
  const credentials: Record<string, string | undefined> = {
    none: undefined,
    basic: 'Basic dXNlcjpwYXNz',
    bare: stack.org.key,
    garbage: 'Bearer garbage',
    empty: 'Bearer ',
    broken: `Bearer ${broken}`,
    operator: `Bearer ${operator}`,
    revoked: `Bearer ${revoked.api_key}`,
    token: 'Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0.',
  }
  for (const [what, authorization] of Object.entries(credentials)) {
    for (const [method, path] of routes) {
      const headers = { ...(authorization && { authorization }), 'idempotency-key': 'é' }
      const answer = await stack.api(method, `${path('not-an-id')}?wait=maybe`, { key: null, headers, body: '{broken' })
      expect([what, method, path('x'), answer.status]).toEqual([what, method, path('x'), 401])
      expect(answer.headers['www-authenticate']).toBe('Bearer')
      expect(answer.json).toMatchObject({ type: 'about:blank', status: 401, code: 'unauthenticated' })
    }
  }
})

test('fork is 501 whatever the id', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  for (const id of [newId(), 'nonsense']) {
    const answer = await stack.api('POST', `/v1/desktops/${id}/fork`)
    expect([answer.status, answer.json.code]).toEqual([501, 'not_implemented'])
  }
})

test('what is malformed is 400 with the name of the field, before existence is looked at', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const id = newId()
  const create = (body: unknown): [string, string, ApiWish] => ['POST', '/v1/desktops', { body }]
  const wake = (query: string, wish: ApiWish = {}): [string, string, ApiWish] => [
    'POST',
    `/v1/desktops/${id}/wake${query}`,
    wish,
  ]
  const exec = (body: unknown): [string, string, ApiWish] => ['POST', `/v1/desktops/${id}/exec`, { body }]
  const key = (value: string | string[]): ApiWish => ({ headers: { 'idempotency-key': value } })
  const cases: [field: string, request: [string, string, ApiWish]][] = [
    ['tier', create({})],
    ['tier', create({ tier: 'huge' })],
    ['tier', create({ tier: null })],
    ['billing_mode', create({ tier: 'small', billing_mode: 'yearly' })],
    ['idle_timeout_secs', create({ tier: 'small', idle_timeout_secs: -1 })],
    ['idle_timeout_secs', create({ tier: 'small', idle_timeout_secs: 1.5 })],
    ['idle_timeout_secs', create({ tier: 'small', idle_timeout_secs: '5' })],
    ['idle_timeout_secs', create('{"tier":"small","idle_timeout_secs":9007199254740993}')],
    ['image_version', create({ tier: 'small', image_version: '' })],
    ['image_version', create({ tier: 'small', image_version: 'x'.repeat(129) })],
    ['image_version', create({ tier: 'small', image_version: 'a\u0007b' })],
    ['body', create('{"tier":')],
    ['body', create('[]')],
    ['body', create('null')],
    ['body', create(Buffer.from([0x22, 0xff, 0x22]))],
    ['Idempotency-Key', ['POST', '/v1/desktops', { body: { tier: 'small' }, ...key('schlüssel') }]],
    ['Idempotency-Key', ['POST', '/v1/desktops', { body: { tier: 'small' }, ...key('') }]],
    ['Idempotency-Key', ['POST', '/v1/desktops', { body: { tier: 'small' }, ...key('x'.repeat(256)) }]],
    ['Idempotency-Key', ['POST', '/v1/desktops', { body: { tier: 'small' }, ...key(['a', 'b']) }]],
    ['Idempotency-Key', wake('', key('schlüssel'))],
    ['wait', wake('?wait=yes')],
    ['wait', wake('?wait=')],
    ['wait', wake('?wait=TRUE')],
    ['wait', wake('?wait=true&wait=true')],
    ['expected_generation', wake('', { body: { expected_generation: '1' } })],
    ['expected_generation', wake('', { body: { expected_generation: 1.5 } })],
    ['expected_generation', wake('', { body: { expected_generation: -1 } })],
    ['expected_generation', wake('', { body: '{"expected_generation":9007199254740993}' })],
    ['expected_generatoin', wake('', { body: { expected_generatoin: 1 } })],
    ['discard_memory', wake('', { body: { discard_memory: 'yes' } })],
    ['discard_memory', ['POST', `/v1/desktops/${id}/hibernate`, { body: { discard_memory: true } }]],
    ['discard_memory', ['POST', `/v1/desktops/${id}/destroy`, { body: { discard_memory: true } }]],
    ['body', wake('', { body: '"text"' })],
    ['id', ['GET', '/v1/desktops/nonsense', {}]],
    ['id', ['GET', `/v1/desktops/${id}0`, {}]],
    ['id', ['POST', '/v1/desktops/nonsense/destroy', {}]],
    ['id', ['POST', '/v1/desktops/nonsense/exec', { body: { command: 'true' } }]],
    ['id', ['GET', '/v1/operations/nonsense', {}]],
    ['state', ['GET', '/v1/desktops?state=asleep', {}]],
    ['state', ['GET', '/v1/desktops?state=', {}]],
    ['state', ['GET', '/v1/desktops?state=awake&state=asleep', {}]],
    ['state', ['GET', '/v1/desktops?state=awake&state=', {}]],
    ['limit', ['GET', '/v1/desktops?limit=0', {}]],
    ['cursor', ['GET', '/v1/desktops?cursor=x', {}]],
    ['command', exec({})],
    ['command', exec({ command: '' })],
    ['command', exec({ command: [] })],
    ['timeout_secs', exec({ command: 'true', timeout_secs: 0 })],
    ['timeout_secs', exec({ command: 'true', timeout_secs: -1 })],
    ['timeout_secs', exec({ command: 'true', timeout_secs: 1.5 })],
    ['timeout_secs', exec({ command: 'true', timeout_secs: '5' })],
  ]
  for (const [field, [method, path, wish]] of cases) {
    const answer = await stack.api(method, path, wish)
    const where = `${method} ${path} ${JSON.stringify(wish)}`
    expect([where, answer.status, answer.json.code]).toEqual([where, 400, 'invalid_request'])
    expect(answer.headers['content-type'], where).toBe('application/problem+json')
    expect([where, answer.json.field]).toEqual([where, field])
  }
  expect((await stack.api('GET', '/v1/desktops')).json.desktops).toEqual([])
})

test('a body over 2 MiB is 413, whether its length is told, not told, or a lie', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const body = JSON.stringify({ tier: 'small' }).padEnd(2 * 1024 * 1024 + 1)
  const told = await stack.api('POST', '/v1/desktops', { body })
  expect([told.status, told.json.code]).toEqual([413, 'payload_too_large'])
  const fits = JSON.stringify({ tier: 'small' }).padEnd(2 * 1024 * 1024)
  expect((await stack.api('POST', '/v1/desktops', { body: fits })).status).toBe(201)
  const chunked = await fetch(`${stack.url}/v1/desktops`, {
    method: 'POST',
    headers: { authorization: `Bearer ${stack.org.key}` },
    body: new Blob([body]).stream(),
    duplex: 'half',
  } as RequestInit)
  expect(chunked.status).toBe(413)
  await chunked.text()
})

test('who sends all of a body before reading hears the 413, also on a connection that is to be closed', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  const bytes = 24 * 1024 * 1024
  for (const line of ['POST /v1/desktops', `PUT /v1/desktops/${id}/files/tmp/x`, 'GET /v1/desktops']) {
    const { hostname, port } = new URL(stack.url)
    const socket = connect(Number(port), hostname).pause()
    const head = `${line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${stack.org.key}\r\nconnection: close\r\n`
    const sent = Readable.from([
      `${head}content-length: ${bytes}\r\n\r\n`,
      ...Array(24).fill(Buffer.alloc(bytes / 24, 'x')),
    ])
    await pipeline(sent, socket, { end: false })
    const ended = once(socket, 'end', { signal: AbortSignal.timeout(20_000) })
    const [first] = (await once(socket.resume(), 'data')) as [Buffer]
    expect([line, first.toString('latin1', 0, 12)]).toEqual([line, 'HTTP/1.1 413'])
    await ended
    socket.destroy()
  }
})

test('a body that stands still is given up with a problem, on each way that a body is read, and one that moves is not', async () => {
  await using stack = await Stack.start({ controlPlane: { bodyStallMs: 2_000 } })
  const { id } = await stack.desktop('awake')
  const { hostname, port } = new URL(stack.url)
  const opened = (line: string) => {
    const socket = connect(Number(port), hostname)
    const head = `${line} HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${stack.org.key}\r\n`
    socket.write(`${head}content-length: 30\r\n\r\n{"tier":`)
    return socket
  }
  const answer = async (socket: Socket) => ((await once(socket, 'data')) as [Buffer])[0].toString()
  const givenUp = async (line: string) => {
    const socket = opened(line)
    const said = await answer(socket)
    socket.destroy()
    expect([line, said.slice(0, 12)]).toEqual([line, 'HTTP/1.1 400'])
    expect(said).toContain(
      '"detail":"timed out waiting for the request body; send it without pauses","code":"invalid_request","field":"body"',
    )
  }
  const slow = opened('POST /v1/desktops')
  const made = answer(slow)
  const pieces = [...'"small"}'.padEnd(22)]
  const sending = setInterval(() => (pieces.length > 0 ? slow.write(pieces.shift()!) : clearInterval(sending)), 125)
  await Promise.all(['POST /v1/desktops', 'GET /v1/desktops', `PUT /v1/desktops/${id}/files/tmp/x`].map(givenUp))
  expect(await made).toMatch(/^HTTP\/1\.1 201 /)
  slow.destroy()
})

test('a body is JSON whatever its Content-Type says, and no body is an empty one where it is optional', async () => {
  await using stack = await Stack.start()
  for (const type of [
    'text/plain',
    'application/x-www-form-urlencoded',
    'application/octet-stream',
    'nonsense',
    'application/json; charset=utf-8',
  ]) {
    const made = await stack.api('POST', '/v1/desktops', {
      body: '{"tier":"small"}',
      headers: { 'content-type': type },
    })
    expect([type, made.status]).toEqual([type, 201])
  }
  const { id } = await stack.desktop()
  expect((await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`)).status).toBe(200)
  const typed = { headers: { 'content-type': 'application/json' } }
  expect((await stack.api('POST', `/v1/desktops/${id}/hibernate?wait=true`, typed)).status).toBe(200)
  expect((await stack.api('POST', `/v1/desktops/${id}/wake?wait=true`, { body: '{}' })).status).toBe(200)
})

test('create takes null and empty as omitted', async () => {
  await using stack = await Stack.start({
    hosts: 0,
    controlPlane: { defaultImage: 'stack-image', defaultIdleTimeoutSecs: 77 },
  })
  const body = { tier: 'large', billing_mode: '', image_version: null, idle_timeout_secs: null, image: null }
  const made = await stack.api('POST', '/v1/desktops', { body })
  expect(made.json).toMatchObject({
    tier: 'large',
    billing_mode: 'hourly',
    image_version: 'stack-image',
    idle_timeout_secs: 77,
  })
  const exact = { tier: 'default', billing_mode: 'monthly', image_version: 'stack-image', idle_timeout_secs: 0 }
  expect((await stack.api('POST', '/v1/desktops', { body: exact })).json).toMatchObject(exact)
})

test('an id is taken in either case and answered in lower case', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { id } = await stack.desktop()
  expect((await stack.api('GET', `/v1/desktops/${id.toUpperCase()}`)).json.id).toBe(id)
})

test('the OpenAPI document is served without a credential and names no server', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { status, json } = await stack.api('GET', '/v1/openapi.json', { key: null })
  expect(status).toBe(200)
  expect(json.openapi).toMatch(/^3\.1/)
  expect(json.servers).toBeUndefined()
  expect(Object.keys(json.paths)).toContain('/v1/desktops/{id}/wake')
})

test('what is not HTTP is answered with a problem and a closed connection', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const socket = connect(Number(new URL(stack.url).port), '127.0.0.1')
  const chunks: Buffer[] = []
  socket.on('data', (chunk) => chunks.push(chunk))
  const closed = Promise.withResolvers<void>()
  socket.on('close', () => closed.resolve())
  socket.write(`NONSENSE ${randomUUID()}\r\n\r\n`)
  await closed.promise
  expect(Buffer.concat(chunks).toString()).toMatch(/^HTTP\/1\.1 400 .*application\/problem\+json/s)
})

test('what operators write about hosts and the audit log is text, or 400', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const key = await stack.replica.parts.principals.createOperatorKey('ops')
  for (const [method, path] of [
    ['POST', '/admin/v1/hosts/%00/trust'],
    ['POST', '/admin/v1/hosts/a%00/cordon'],
    ['POST', '/admin/v1/hosts/%00/drain'],
    ['GET', '/admin/v1/hosts/%00/removal'],
    ['GET', '/admin/v1/audit?actor=%00'],
    ['GET', '/admin/v1/audit?subject=%00'],
  ] as const)
    expect([path, (await stack.api(method, path, { key, body: {} })).status]).toEqual([path, 400])
})

test('a customer is 403 at an operator’s route, and an operator is not', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const operator = await stack.replica.parts.principals.createOperatorKey('ops')
  for (const path of ['/admin/v1/hosts', '/admin/v1/deferred-commands', '/admin/v1/alarms', '/admin/v1/replicas']) {
    expect((await stack.api('GET', path)).status).toBe(403)
    expect((await stack.api('GET', path, { key: null })).status).toBe(401)
    expect((await stack.api('GET', path, { key: operator })).status).toBe(200)
  }
})

// Guarantee: nothing answers before the credential was looked at; a revoked key is refused everywhere within a second; and
// nobody sends more than his share.
import { generateKeyPairSync } from 'node:crypto'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { answersIn } from '../fuzz/http/wire.ts'
import { checked } from '../openapi.ts'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

/** Sends the bytes as they are; returns all that comes back until the server is silent or hangs up. */
async function raw(url: string, text: string, over: RegExp): Promise<string> {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  let heard = ''
  socket.on('data', (chunk) => {
    heard += chunk
  })
  socket.on('error', () => undefined)
  socket.write(text)
  await waitFor(`an answer to ${text.slice(0, 40)}`, () => over.test(heard) || socket.closed)
  socket.destroy()
  const [, method = '', path = ''] = /^(\w+) (\S+) HTTP/.exec(text) ?? []
  for (const answer of answersIn(Buffer.from(heard)).answers) await checked(url, { method, path, ...answer })
  return heard
}

const head = (line: string, ...headers: string[]): string => [line, 'host: x', ...headers, '', ''].join('\r\n')

test('a stranger is told 401 and nothing else, whatever he asks for and however', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const requests: [method: string, path: string][] = [
    ['GET', '/v1/%zz'],
    ['GET', '/v1/desktops/%ff'],
    ['GET', '/v1/desktops/%'],
    ['POST', '/v1/desktops/%c3%28/wake'],
    ['GET', '/v1'],
    ['GET', '/v1/'],
    ['GET', '/v1/nothing/here?x=%zz'],
    ['GET', `/v1/desktops/${'x'.repeat(9_000)}`],
    ['GET', '/v1/desktops/'],
    ['DELETE', '/v1/desktops'],
    ['PATCH', '/v1/desktops/x'],
    ['OPTIONS', '/v1/desktops'],
    ['OPTIONS', '/v1/nothing'],
    ['TRACE', '/v1/desktops'],
    ['PROPFIND', '/v1/desktops'],
    ['HEAD', '/v1/desktops'],
    ['HEAD', '/v1/nothing'],
    ['POST', '/v1/openapi.json'],
    ['DELETE', '/v1/openapi.json'],
    ['GET', '/admin/v1/%zz'],
    ['GET', '/admin/v1/nothing'],
    ['PUT', '/admin/v1/orgs'],
  ]
  for (const [method, path] of requests) {
    const answer = await stack.api(method, path, { key: null })
    expect([method, path.slice(0, 40), answer.status]).toEqual([method, path.slice(0, 40), 401])
    expect(answer.headers).toMatchObject({ 'www-authenticate': 'Bearer', 'content-type': 'application/problem+json' })
    expect(answer.headers.allow).toBeUndefined()
    expect(answer.headers['x-request-id']).toBeDefined()
    expect(answer.json?.code).toBe(method === 'HEAD' ? undefined : 'unauthenticated')
  }
  expect((await stack.api('GET', '/v1/openapi.json', { key: null })).status).toBe(200)
  expect((await stack.api('HEAD', '/v1/openapi.json', { key: null })).status).toBe(200)
})

test('with a credential the same requests get what they deserve', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const answers: [method: string, path: string, status: number, allow?: string][] = [
    ['GET', '/v1/%zz', 400],
    ['GET', '/v1/desktops/%ff', 400],
    ['GET', `/v1/desktops/${'x'.repeat(9_000)}`, 400],
    ['GET', '/v1', 404],
    ['GET', '/v1/nothing', 404],
    ['PROPFIND', '/v1/nothing', 404],
    ['DELETE', '/v1/desktops', 405, 'GET, HEAD, POST'],
    ['OPTIONS', '/v1/desktops', 405, 'GET, HEAD, POST'],
    ['PUT', '/v1/desktops/x', 405, 'GET, HEAD, PATCH'],
    ['GET', '/v1/desktops/x/wake', 405, 'POST'],
    ['HEAD', '/v1/desktops/x/wake', 405, 'POST'],
    ['POST', '/v1/openapi.json', 405, 'GET, HEAD'],
    ['GET', '/admin/v1/orgs', 403],
  ]
  for (const [method, path, status, allow] of answers) {
    const answer = await stack.api(method, path)
    expect([method, path.slice(0, 40), answer.status, answer.headers.allow]).toEqual([
      method,
      path.slice(0, 40),
      status,
      allow,
    ])
    expect(answer.headers['content-type']).toBe('application/problem+json')
  }
})

test('a header that holds no credential is 401, in every form of it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { key } = stack.org
  const forms = [
    '',
    ' ',
    'Bearer',
    'Bearer ',
    `Bearer${key}`,
    `Bearer ${key} ${key}`,
    `Bearer ${key},`,
    `Bearer "${key}"`,
    `Basic ${key}`,
    `Token ${key}`,
    key,
    `Bearer ${key.toLowerCase()}`,
    `Bearer ${key}0`,
    `Bearer ${key.slice(0, -1)}`,
    `Bearer svc_sk_${'a'.repeat(12_000)}`,
    `Bearer ${'.'.repeat(12_000)}`,
    `Bearer ${' '.repeat(12_000)}x y`,
    'Bearer svc_sk_\u00e9\u00ff',
  ]
  for (const authorization of forms) {
    const answer = await stack.api('GET', '/v1/desktops', { key: null, headers: { authorization } })
    expect([authorization.slice(0, 70), answer.status]).toEqual([authorization.slice(0, 70), 401])
  }
  for (const authorization of [`bearer ${key}`, `BEARER  ${key}`, `Bearer ${key}  `])
    expect((await stack.api('GET', '/v1/desktops', { key: null, headers: { authorization } })).status).toBe(200)
})

test('a withheld body is asked for only behind the door, and an upgrade is no way round it', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { url, org } = stack
  const create = 'POST /v1/desktops HTTP/1.1'
  const withheld = ['expect: 100-continue', 'content-length: 16']
  const authorized = `authorization: Bearer ${org.key}`
  const stranger = await raw(url, head(create, ...withheld), /}$/)
  expect(stranger).toMatch(/^HTTP\/1\.1 401 /)
  expect(stranger).toMatch(/\r\nconnection: close\r\n/i)
  const customer = await raw(url, `${head(create, ...withheld, authorized)}{"tier":"small"}`, /}$/)
  expect(customer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 201 /)
  const odd = await raw(url, head('GET /v1/desktops HTTP/1.1', 'expect: a-miracle'), /}$/)
  expect(odd).toMatch(/^HTTP\/1\.1 401 /)
  for (const protocol of ['websocket', 'h2c']) {
    const upgrade = ['connection: upgrade', `upgrade: ${protocol}`]
    expect(await raw(url, head('GET /v1/desktops HTTP/1.1', ...upgrade), /}$/)).toMatch(/^HTTP\/1\.1 401 /)
    expect(await raw(url, head('GET /v1/desktops HTTP/1.1', ...upgrade, authorized), /}$/)).toMatch(/^HTTP\/1\.1 200 /)
  }
  const absolute = await raw(url, head(`GET ${url}/v1/%zz HTTP/1.1`), /}$/)
  expect(absolute).toMatch(/^HTTP\/1\.1 401 /)
})

test('a body of any size does not come before the credential', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const huge = head('POST /v1/desktops HTTP/1.1', 'content-length: 99999999999')
  expect(await raw(stack.url, `${huge}{`, /}$/)).toMatch(/^HTTP\/1\.1 401 /)
  const endless = head('POST /v1/desktops HTTP/1.1', 'transfer-encoding: chunked')
  expect(await raw(stack.url, `${endless}5\r\nhello\r\n`, /}$/)).toMatch(/^HTTP\/1\.1 401 /)
})

test('a key revoked at one replica is refused by every other within a second, however busy it is', async () => {
  await using stack = await Stack.start({ hosts: 0, replicas: 2 })
  const { principals } = stack.replica.parts
  const { id, api_key: key } = await principals.createKey(stack.org.id, 'leaving')
  const other = stack.replicas[1]!.parts.principals
  const states = () =>
    Promise.all(
      [principals, other].map((at) =>
        at.authenticate(`Bearer ${key}`).then(
          () => true,
          () => false,
        ),
      ),
    )
  expect(await states()).toEqual([true, true])
  await principals.revokeKey(id)
  const revokedAt = performance.now()
  expect((await states())[0]).toBe(false)
  await waitFor('the refusal at every replica', async () => {
    const askedAt = performance.now()
    const refused = (await states()).every((good) => !good)
    // However long an answer takes: what is asked after a second has passed is refused.
    if (!refused) expect(askedAt - revokedAt).toBeLessThan(1_000)
    return refused
  })
  expect((await stack.api('GET', '/v1/desktops', { key })).status).toBe(401)
})

test('requests that come together with one key cost one look-up', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { principals } = stack.replica.parts
  const { api_key: key } = await principals.createKey(stack.org.id, 'busy')
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
  expect(new Set((await requests).map(({ subject }) => subject)).size).toBe(1)
})

test('an invitation enrols one host: its key again is the same host, and another key is told that it is spent', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { token } = await stack.replica.parts.hosts.invite('one')
  stack.secrets.learn('the invitation of one', token)
  const enrol = (public_key: object) =>
    stack.api('POST', '/agent/v1/enrol', { key: null, body: { token, name: 'one', public_key } })
  const [key, another] = [publicKey(), publicKey()]
  const first = await enrol(key)
  expect(first.status).toBe(201)
  expect((await enrol(another)).json).toMatchObject({ status: 409, code: 'invite_spent' })
  expect((await enrol(key)).json).toEqual(first.json)
  expect(await stack.replica.parts.hosts.list()).toHaveLength(1)
})

/** Such as a host makes for itself. */
function publicKey(): object {
  const { kty, crv, x } = generateKeyPairSync('ed25519').publicKey.export({ format: 'jwk' })
  return { kty, crv, x }
}

test('the use of a key is noted', async () => {
  await using stack = await Stack.start({ hosts: 0 })
  const { principals } = stack.replica.parts
  const used = async () => (await principals.listKeys(stack.org.id))[0]!.last_used_at
  expect(await used()).toBeNull()
  await stack.api('GET', '/v1/desktops')
  await waitFor('the note', used)
})

test('one request too many in a second is 429 with the way back, for that credential alone', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { rateLimitPerSecond: 2 } })
  const other = await stack.otherOrg
  const answers = await Promise.all(Array.from({ length: 60 }, () => stack.api('GET', '/v1/desktops')))
  const refused = answers.find(({ status }) => status === 429)!
  expect(refused.json).toMatchObject({ type: 'about:blank', status: 429, code: 'rate_limited' })
  expect(refused.headers).toMatchObject({ 'retry-after': '1', 'x-ratelimit-limit': '2', 'x-ratelimit-remaining': '0' })
  const served = answers.find(({ status }) => status === 200)!
  expect(Object.keys(served.headers).filter((name) => /ratelimit|retry/.test(name))).toEqual([])
  expect((await stack.api('GET', '/v1/desktops', { key: other.key })).status).toBe(200)
  await waitFor('the next second', async () => (await stack.api('GET', '/v1/desktops')).status === 200)
})

test('strangers are limited by their address, and a good credential from the same address is not', async () => {
  await using stack = await Stack.start({ hosts: 0, controlPlane: { rateLimitStrangersPerSecond: 1 } })
  const ask = (path: string) => stack.api('GET', path, { key: null })
  for (const path of ['/v1/desktops', '/v1/nothing', '/v1/%zz']) {
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask(path)))
    const statuses = new Set(answers.map(({ status }) => status))
    expect([path, statuses.has(429), [...statuses].every((status) => status === 401 || status === 429)]).toEqual([
      path,
      true,
      true,
    ])
    expect((await stack.api('GET', '/v1/desktops')).status).toBe(200)
  }
})

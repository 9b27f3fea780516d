// Guarantee: a URL that was handed on opens its one file, as often and as long as it was made for, and nothing runs from it.
import { randomBytes } from 'node:crypto'
import { connect } from 'node:net'
import { createAdminClient } from '@dormouse/client'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { type ApiWish, send } from './parts/api.ts'

let stack: Stack
let id: string

beforeAll(async () => {
  stack = await Stack.start({ replicas: 2 })
  id = (await stack.desktop('awake')).id
})
afterAll(() => stack[Symbol.asyncDispose]())
beforeEach(async () => {
  await fill('content')
  await stack.api('POST', `/v1/desktops/${id}/entries`, { body: { action: 'remove', path: '/srv/new' } })
})

const urlsOf = (desktop = id) => `/v1/desktops/${desktop}/file-urls`

const fill = (body: string) => stack.api('PUT', `/v1/desktops/${id}/files/srv/a%20b.html`, { body })

/** As a client without a credential. */
const visit = (url: string, method = 'GET', wish: ApiWish = {}) => send(url, method, { key: null, ...wish })

async function make(body: object = {}, key = stack.org.key) {
  const made = await stack.api('POST', urlsOf(), { body: { path: '/srv/a b.html', method: 'GET', ...body }, key })
  expect([made.status, made.headers['cache-control']]).toEqual([201, 'no-store'])
  return made.json as { id: string; url: string; expires_at: string }
}

const states = async () => {
  const { json } = await stack.api('GET', urlsOf())
  return Object.fromEntries(
    json.file_urls.map((one: { id: string; state: string; uses: number }) => [one.id, [one.state, one.uses]]),
  )
}

test('a URL sends its file as a download that no page can run or read', async () => {
  const { id: urlId, url } = await make()
  const answer = await visit(url)
  expect([answer.status, answer.text]).toEqual([200, 'content'])
  expect(answer.headers).toMatchObject({
    'content-type': 'application/octet-stream',
    'content-disposition': `attachment; filename="a_b.html"; filename*=UTF-8''a%20b.html`,
    'content-security-policy': expect.stringContaining('sandbox;'),
    'x-content-type-options': 'nosniff',
    'cross-origin-resource-policy': 'same-origin',
    'referrer-policy': 'no-referrer',
    'cache-control': 'private, no-store',
    'accept-ranges': 'bytes',
  })
  const page = { origin: 'https://elsewhere.example', 'access-control-request-method': 'GET' }
  for (const [method, status] of [
    ['GET', 200],
    ['OPTIONS', 405],
    ['HEAD', 405],
    ['POST', 405],
    ['PUT', 405],
  ] as const) {
    const other = await visit(url, method, { headers: page })
    expect([method, other.status, other.headers['access-control-allow-origin']]).toEqual([method, status, undefined])
  }
  const part = await visit(url, 'GET', { headers: { range: 'bytes=3-4' } })
  expect([part.status, part.text, part.headers['content-range']]).toEqual([206, 'te', 'bytes 3-4/7'])
  await fill('')
  expect(await visit(url)).toMatchObject({ status: 200, text: '' })
  expect((await states())[urlId]).toEqual(['active', 4])
  const audit = await stack.database.rows(
    `select actor, action, details->>'method' as method from audit_log where details->>'id' = $1 order by id`,
    [urlId],
  )
  const [key] = await stack.database.rows<{ made_by: string }>('select made_by from file_urls where id = $1', [urlId])
  expect(audit).toEqual([
    { actor: key!.made_by, action: 'file-url.create', method: 'GET' },
    ...Array(4).fill({ actor: `file-url:${urlId}`, action: 'file-url.use', method: 'GET' }),
  ])
})

test('a URL takes a file whole, up to its size, and no other path or token is worth anything', async () => {
  const { url } = await make({ path: '/srv/new', method: 'PUT', max_bytes: 10 })
  expect(await visit(url, 'PUT', { body: '0123456789' })).toMatchObject({ status: 200, json: { size: 10 } })
  expect(await visit(url, 'PUT', { body: '0123456789x' })).toMatchObject({ status: 413 })
  const chunked = await fetch(url, {
    method: 'PUT',
    body: new Blob(['0123456789x']).stream(),
    duplex: 'half',
  } as RequestInit)
  expect(chunked.status).toBe(413)
  expect((await stack.exec(id, 'cat /srv/new')).json.stdout).toBe('0123456789')
  expect(await visit(url, 'GET')).toMatchObject({ status: 405, headers: { allow: 'PUT' } })
  const small = await make({ max_bytes: 6 })
  expect((await visit(small.url)).json.code).toBe('payload_too_large')
  const missing = await make({ path: '/srv/none', once: true })
  expect((await visit(missing.url)).json.code).toBe('file_not_found')
  expect((await states())[missing.id]).toEqual(['active', 0])
  const wrong = url.replace(/[^/]+$/, randomBytes(32).toString('base64url'))
  for (const other of [wrong, url.replace(/[^/]+$/, 'x'), url.slice(0, -44), `${url}/x`])
    expect([other, (await visit(other, 'PUT', { body: 'x' })).status]).toEqual([other, 404])
})

test('one for one use is used once: by two at a time, over two replicas, and over a death before the first byte', async () => {
  const urls = stack.replicas.map((replica) => replica.url)
  const { url, id: urlId } = await make({ once: true })
  const places = urls.map((origin) => origin + new URL(url).pathname)
  const answers = await Promise.all(places.map((place) => visit(place)))
  // The other one is refused, even if it would have to wait for the guest.
  expect(answers.map(({ status }) => status).sort()).toEqual([200, 410])
  // It says nothing of parts, which no second request could get.
  expect(answers.flatMap(({ headers }) => headers['accept-ranges'] ?? [])).toEqual([])
  expect((await states())[urlId]).toEqual(['used', 1])
  const cut = await make({ once: true, path: '/srv/new', method: 'PUT' })
  stack.failpoints.set('file-url.spent', 'throw')
  expect((await visit(cut.url, 'PUT', { body: 'new' })).status).toBe(500)
  stack.failpoints.set('file-url.spent', undefined)
  for (const origin of urls) {
    const again = await visit(origin + new URL(cut.url).pathname, 'PUT', { body: 'new' })
    expect([again.status, again.json.code]).toEqual([410, 'url_gone'])
  }
  expect((await stack.exec(id, 'cat /srv/new')).json.exit_code).toBe(1)
})

test('it ends with its time, its revocation, its maker’s key and its desktop; transfers in progress end too', async () => {
  const admin = await stack.replica.parts.principals.createKey(stack.org.id, 'maker')
  stack.secrets.learn('the maker’s key', admin.api_key)
  const [byKey, revoked, expired, later] = [
    await make({}, admin.api_key),
    await make({ path: '/srv/new', method: 'PUT' }),
    await make({ expires_in_secs: 86_400 }),
    await make(),
  ]
  await stack.database.rows('update file_urls set expires_at = now() where id = $1', [expired.id])
  // A client that sends slowly.
  const socket = connect(Number(new URL(revoked.url).port), '127.0.0.1')
  socket.write(`PUT ${new URL(revoked.url).pathname} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nbegin`)
  await waitFor('the transfer', async () => (await states())[revoked.id]?.[1] === 1)
  expect((await stack.api('DELETE', `${urlsOf()}/${revoked.id}`)).status).toBe(204)
  await waitFor('its end', () => stack.channels === 0)
  socket.destroy()
  await stack.replica.parts.principals.revokeKey(admin.id)
  for (const [{ url }, method, why] of [
    [byKey, 'GET', 'revoked'],
    [revoked, 'PUT', 'revoked'],
    [expired, 'GET', 'expired'],
  ] as const) {
    const { status, json } = await visit(url, method)
    expect([status, json.code, json.detail]).toEqual([410, 'url_gone', expect.stringContaining(why)])
  }
  expect(await states()).toMatchObject({
    [byKey.id]: ['revoked', 0],
    [revoked.id]: ['revoked', 1],
    [expired.id]: ['expired', 0],
  })
  await stack.ask(id, 'hibernate')
  expect(await visit(later.url)).toMatchObject({ status: 409, json: { code: 'not_awake', state: 'hibernated' } })
  expect((await stack.see(id)).state).toBe('hibernated')
  await stack.ask(id, 'wake')
  expect((await visit(later.url)).status).toBe(200)
  const other = await stack.desktop('awake')
  const { json } = await stack.api('POST', urlsOf(other.id), { body: { path: '/srv/x', method: 'GET' } })
  await stack.ask(other.id, 'destroy')
  expect((await visit(json.url)).json).toMatchObject({ code: 'url_gone' })
  expect((await stack.api('POST', urlsOf(other.id), { body: { path: '/x', method: 'GET' } })).status).toBe(409)
})

test('their number, their uses at a time and what is asked for are bounded, and old ones are forgotten', async () => {
  for (const [field, body] of [
    ['path', { path: 'srv', method: 'GET' }],
    ['path', { path: '/', method: 'GET' }],
    ['method', { path: '/srv', method: 'POST' }],
    ['expires_in_secs', { path: '/srv', method: 'GET', expires_in_secs: 86_401 }],
    ['max_bytes', { path: '/srv', method: 'GET', max_bytes: 0 }],
  ] as const) {
    const answer = await stack.api('POST', urlsOf(), { body })
    expect([body, answer.status, answer.json.field]).toEqual([body, 400, field])
  }
  const { url } = await make({ path: '/srv/new', method: 'PUT' })
  const { pathname, port } = new URL(url)
  const slow = [0, 1].map(() => {
    const socket = connect(Number(port), '127.0.0.1')
    socket.write(`PUT ${pathname} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000\r\n\r\nbegin`)
    return socket
  })
  await waitFor('both', () => stack.channels === 2)
  expect(await visit(url, 'PUT', { body: 'x' })).toMatchObject({ status: 429 })
  for (const socket of slow) socket.destroy()
  await waitFor('their end', () => stack.channels === 0)
  await stack.database.rows(
    `insert into file_urls (id, org_id, desktop_id, path, method, once, hash, made_by, expires_at)
     select gen_random_uuid(), $1, $2, '/x', 'GET', false, '\\x00', 'jwt:x', now() + interval '1 hour'
     from generate_series(1, 100)`,
    [stack.org.id, id],
  )
  expect((await stack.api('POST', urlsOf(), { body: { path: '/x', method: 'GET' } })).json.code).toBe('conflict')
  await stack.database.rows(`update file_urls set expires_at = now() - interval '8 days'`)
  await stack.replica.parts.retention.prune()
  expect(await states()).toEqual({})
})

test('operators see who made URLs and each use, and no path or token', async () => {
  const operatorKey = await stack.replica.parts.principals.createOperatorKey('ops')
  stack.secrets.learn('the operator’s key', operatorKey)
  const { entries } = await createAdminClient({ baseUrl: stack.url, operatorKey }).listAudit({ subject: id })
  const actions = new Set(entries.map(({ action }) => action))
  expect([...actions].sort()).toEqual(['file-url.create', 'file-url.revoke', 'file-url.use'])
  expect(JSON.stringify(entries)).not.toContain('/srv')
})

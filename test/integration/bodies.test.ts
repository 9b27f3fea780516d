// Guarantee: what a body costs is bounded before it is read, by the limit of its route; its content is parsed by plain rules.
import { once } from 'node:events'
import { connect } from 'node:net'
import { newId } from '@dormouse/contract'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

let stack: Stack
let operator: string

beforeAll(async () => {
  stack = await Stack.start({ controlPlane: { bodyStallMs: 1_000 } })
  operator = await stack.replica.parts.principals.createOperatorKey('ops')
})
afterAll(() => stack[Symbol.asyncDispose]())

const padded = (bytes: number): string => '{}'.padEnd(bytes)
const chunked = (path: string, body: string) =>
  fetch(stack.url + path, { method: 'POST', body: new Blob([body]).stream(), duplex: 'half' } as RequestInit)

test('a door that asks for no credential takes 4 KiB, whether the length is told or not', async () => {
  const enrol = (body: string) => stack.api('POST', '/agent/v1/enrol', { key: null, body })
  expect((await enrol(padded(4_097))).status).toBe(413)
  expect((await chunked('/agent/v1/enrol', padded(4_097))).status).toBe(413)
  expect((await enrol(padded(4_096))).json).toMatchObject({ status: 400, field: 'token' })
})

test('the longest enrolment, with every character escaped, is taken', async () => {
  const escaped = (text: string) =>
    [...text].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
  const key = `{"kty":"OKP","crv":"Ed25519","x":"${escaped('A'.repeat(43))}"}`
  const body = `{"token":"${escaped('t'.repeat(200))}","name":"${escaped('é'.repeat(100))}","public_key":${key}}`
  expect((await stack.api('POST', '/agent/v1/enrol', { key: null, body })).json.code).toBe('invite_spent')
})

test('an operator’s door takes what its schemas need, and a customer’s what the contract promises', async () => {
  const orgs = (body: string) => stack.api('POST', '/admin/v1/orgs', { key: operator, body })
  expect((await orgs(padded(4_097))).status).toBe(413)
  expect((await orgs(JSON.stringify({ name: '\u{1f42d}'.repeat(50) }))).status).toBe(201)
  const body = '{"tier":"small"}'.padEnd(2 * 1024 * 1024)
  expect((await stack.api('POST', '/v1/desktops', { body })).status).toBe(201)
})

test('a body that leads nowhere is not read', async () => {
  for (const [path, key] of [
    ['/nothing', null],
    ['/v1/nothing', stack.org.key],
    ['/admin/v1/nothing', operator],
  ] as const)
    expect([path, (await stack.api('POST', path, { key, body: '{broken' })).status]).toEqual([path, 404])
})

test('who goes on sending what nobody reads is cut off', async () => {
  const { hostname, port } = new URL(stack.url)
  for (const head of ['POST /nothing', 'POST /v1/desktops', 'DELETE /v1/desktops']) {
    const socket = connect(Number(port), hostname).on('error', () => undefined)
    socket.write(`${head} HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n`)
    const sending = setInterval(() => socket.write('1\r\nx\r\n'), 50)
    const [said] = (await once(socket, 'data')) as [Buffer]
    expect([head, said.toString('latin1', 0, 10)]).toEqual([head, 'HTTP/1.1 4'])
    await waitFor('the connection to be cut', () => socket.closed)
    clearInterval(sending)
  }
})

test('a body is read plainly, however deep: no function is called for each value', async () => {
  const deep = `${'['.repeat(200_000)}${']'.repeat(200_000)}`
  const { json } = await stack.api('POST', '/v1/desktops', { body: `{"tier":"small","note":${deep}}` })
  expect(json).toMatchObject({ status: 400, field: 'note' })
})

test('a field named __proto__ is refused wherever and however it is written, and nothing else is', async () => {
  const create = (body: string) => stack.api('POST', '/v1/desktops', { body })
  const refused = [
    '{"tier":"small","__proto__":{"x":1}}',
    '{"tier":"small","note":[{"a":{"__proto__"\n\t : null}}]}',
    '{"tier":"small","\\u005f_proto\\u005F\\u005f":1}',
    '{"tier":"small","\\u005F\\u005f\\u0070\\u0072\\u006f\\u0074\\u006F__":1}',
    '{"__proto__":1,"tier":"small"}',
  ]
  for (const body of refused) {
    const { status, json } = await create(body)
    expect([body, status, json.field]).toEqual([body, 400, '__proto__'])
  }
  const readOn = {
    '{"note":"__proto__"}': 'note',
    '{"note":["__proto__","constructor"]}': 'note',
    '{"note":"\\"__proto__\\": 1"}': 'note',
    '{"a\\"__proto__":1}': 'a"__proto__',
    '{"__PROTO__":1}': '__PROTO__',
    '{"__proto":1}': '__proto',
    '{"x__proto__":1}': 'x__proto__',
    '{"constructor":{"prototype":{"tier":"large"}}}': 'constructor',
  }
  for (const [body, field] of Object.entries(readOn)) {
    const { status, json } = await create(body)
    expect([body, status, json.field]).toEqual([body, 400, field])
  }
})

test('a variable may be called as anything that is no prototype', async () => {
  const { id } = await stack.desktop('awake')
  const env = { constructor: 'a', toString: 'b' }
  expect((await stack.exec(id, 'echo $constructor$toString', { env })).json.stdout).toBe('ab\n')
})

test('a caller’s own words come back to him in short', async () => {
  const id = newId()
  const wake = (body: object) => stack.api('POST', `/v1/desktops/${id}/wake`, { body })
  const many = Object.fromEntries(Array.from({ length: 20_000 }, (_, i) => [`unknown-${i}`, 0]))
  const exec = (body: object) => stack.api('POST', `/v1/desktops/${id}/exec`, { body })
  const long = 'x'.repeat(500_000)
  for (const answer of [
    await wake(many),
    await wake({ [long]: 1 }),
    await exec({ command: 'x', env: { [`${long}=`]: '' } }),
  ]) {
    expect(answer.status).toBe(400)
    expect(answer.json.field).toMatch(/^unknown-0$|^x+…$|^env\.x+…$/)
    expect(answer.text.length).toBeLessThan(2_000)
  }
})

test('null is what was left out, and half of a character is nothing that a guest could get', async () => {
  const { id } = await stack.desktop('awake')
  const change = await stack.api('PATCH', `/v1/desktops/${id}`, {
    body: { idle_timeout_secs: null, idle_policy: null },
  })
  expect([change.status, change.json.idle_timeout_secs]).toEqual([200, 1_800])
  const file = { path: '/srv/x', method: 'GET', expires_in_secs: null }
  expect((await stack.api('POST', `/v1/desktops/${id}/file-urls`, { body: file })).status).toBe(201)
  const actions = [
    { type: 'wait', ms: 1 },
    { type: 'click', x: null, y: null, button: null, hold: null },
  ]
  expect((await stack.api('POST', `/v1/desktops/${id}/input`, { body: { actions } })).json.outcome).toBe('done')
  for (const body of [
    '{"command":"echo \\ud800"}',
    '{"command":["echo","\\udc00x"]}',
    '{"command":"x","cwd":"/\\ud800"}',
  ])
    expect((await stack.api('POST', `/v1/desktops/${id}/exec`, { body })).json).toMatchObject({
      status: 400,
      detail: expect.stringContaining('half of a surrogate pair'),
    })
})

test.each(['%ff', '%E0%A4', '100%', '%zz', '%ED%A0%80'])('a query that says no text is refused: %s', async (said) => {
  for (const path of ['entries', 'uploads', 'watch']) {
    const at = `/v1/desktops/${newId()}/${path}?path=/tmp/${said}`
    const { status, json } = await stack.api(path === 'uploads' ? 'POST' : 'GET', at)
    expect([path, status, json.field]).toEqual([path, 400, 'query'])
  }
})

test('what is missing of a query is said', async () => {
  const upload = await stack.api('POST', `/v1/desktops/${newId()}/uploads`, { body: '' })
  expect(upload.json.detail).toBe('path: must be sent, as a query parameter')
})

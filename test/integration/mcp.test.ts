// Guarantee: an agent uses desktops by the reference client of its protocol, with its own credential and nothing beyond it.
import net from 'node:net'
import { text as wholeText } from 'node:stream/consumers'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'

let stack: Stack
beforeAll(async () => {
  stack = await Stack.start()
})
afterAll(() => stack?.[Symbol.asyncDispose]())

async function connect(query = '', key = stack.org.key) {
  const agent = new Client({ name: 'test', version: '1' })
  const requestInit = { headers: { authorization: `Bearer ${key}` } }
  await agent.connect(new StreamableHTTPClientTransport(new URL(`${stack.url}/mcp${query}`), { requestInit }))
  const call = async (name: string, args: Record<string, unknown> = {}) => {
    const { content, isError = false } = await agent.callTool({ name, arguments: args })
    return { isError, text: (content as { text: string }[])[0]!.text, content }
  }
  return { agent, call, [Symbol.asyncDispose]: () => agent.close() }
}

test('an agent creates a desktop, uses it and lets it sleep', async () => {
  await using agent = await connect()
  const created = await agent.call('desktop_create', { tier: 'small' })
  expect(created.text).toMatch(/^[0-9a-f-]{36} is awake/)
  const desktop_id = created.text.slice(0, 36)
  expect((await agent.call('desktop_list')).text).toContain(`${desktop_id}  awake`)
  await agent.call('desktop_write_file', { desktop_id, path: '/srv/a b', text: 'Grüße\n' })
  expect((await agent.call('desktop_read_file', { desktop_id, path: '/srv/a b' })).text).toBe('Grüße\n')
  expect((await agent.call('desktop_list_files', { desktop_id, path: '/srv' })).text).toContain('/srv/a b')
  expect((await agent.call('desktop_run', { desktop_id, command: 'echo here' })).text).toBe(
    'exit code 0\n--- stdout\nhere\n',
  )
  const acted = await agent.call('desktop_act', { desktop_id, actions: [{ action: 'key', text: 'ctrl+a' }] })
  expect([acted.isError, acted.text]).toEqual([false, expect.stringMatching(/^1 of 1 actions done/)])
  const long = 'x'.repeat(2_000_000)
  await agent.call('desktop_write_file', { desktop_id, path: '/srv/long', text: long })
  const { text } = await agent.call('desktop_run', { desktop_id, command: 'cat /srv/long; echo THE END' })
  expect([text.length < 17_000, text.endsWith('x\nTHE END\n') || text.endsWith('xTHE END\n')]).toEqual([true, true])
  const started = await agent.call('desktop_run', { desktop_id, command: 'echo going on', background: true })
  const exec_id = /exec_id (\S+)/.exec(started.text)![1]
  await waitFor(async () =>
    (await agent.call('desktop_output', { desktop_id, exec_id })).text.startsWith(
      'exit code 0; stdout 0–9 of 9; read on with offset 9\ngoing on',
    ),
  )
  expect((await agent.call('desktop_hibernate', { desktop_id })).text).toContain('is hibernated')
  const asleep = await agent.call('desktop_run', { desktop_id, command: 'true' })
  expect([asleep.isError, asleep.text]).toEqual([true, expect.stringContaining('call desktop_wake')])
})

test('an agent that may not destroy leaves no desktop that it could not use', async () => {
  const { key } = await stack.newOrg('tries')
  await using agent = await connect('', key)
  const offers = await agent.call('desktop_images')
  expect(offers.text).toMatch(/^image \S+ \(the default\)\n(.*\n)*tier small: /)
  const unknown = await agent.call('desktop_create', { image: 'nothing-like-it' })
  expect([unknown.isError, unknown.text]).toEqual([true, expect.stringContaining('call desktop_images')])
  const { faults } = stack.host.driver
  faults.failNext('startCold', 1_000, 'guest_silent')
  const failed = await agent.call('desktop_create', { tier: 'small' })
  faults.failNext('startCold', 0)
  expect([failed.isError, failed.text]).toEqual([true, expect.stringContaining('removed again')])
  const left = await agent.agent.callTool({ name: 'desktop_list', arguments: {} })
  expect(left.structuredContent).toEqual({ desktops: [], more: false })
})

test('another organisation’s desktop is one that does not exist, also where an agent is given it', async () => {
  const { id: desktop_id } = await stack.desktop('awake')
  const other = await stack.newOrg('agents')
  await using agent = await connect('', other.key)
  const answer = await agent.call('desktop_run', { desktop_id, command: 'true' })
  expect([answer.isError, answer.text]).toEqual([true, expect.stringContaining('call desktop_list')])
  await using pinned = await connect(`?desktop=${desktop_id}&grants=see,use`, other.key)
  expect((await pinned.call('desktop_run', { command: 'true' })).isError).toBe(true)
})

test('who has no key, or asks for grants that do not exist, gets no further', async () => {
  const post = (query: string, key = stack.org.key) => stack.api('POST', `/mcp${query}`, { key, body: {} })
  expect((await post('', 'svc_sk_wrong')).status).toBe(401)
  const misspelt = await post('?grants=see,destory')
  expect([misspelt.status, misspelt.json.field]).toEqual([400, 'grants'])
})

const standard = 'application/json, text/event-stream'
const ping = { jsonrpc: '2.0', id: 1, method: 'ping' }
const pong = { jsonrpc: '2.0', id: 1, result: {} }

function post(body: unknown, headers: Record<string, string> = {}) {
  return stack.api('POST', '/mcp', { body, headers: { accept: standard, ...headers } })
}

test('what asks for no answer is 202 without a body, whatever the client accepts', async () => {
  const initialized = { jsonrpc: '2.0', method: 'notifications/initialized' }
  const cancelled = { jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: 9 } }
  const response = { jsonrpc: '2.0', id: 7, result: {} }
  for (const body of [initialized, cancelled, response, [initialized, cancelled]])
    for (const accept of [standard, '*/*', 'text/html']) {
      const { status, text, headers } = await post(body, { accept })
      expect([status, text, headers['content-type']]).toEqual([202, '', undefined])
    }
})

test.each([
  [standard, 'text/event-stream'],
  ['text/event-stream', 'text/event-stream'],
  ['application/json', 'application/json'],
  ['*/*', 'application/json'],
  ['application/*, text/*', 'application/json'],
  ['application/json;q=0.2, text/event-stream;q=0.1', 'application/json'],
])('a client that accepts %s gets %s', async (accept, type) => {
  const { status, headers, text } = await post(ping, { accept })
  expect([status, headers['content-type']]).toEqual([200, expect.stringContaining(type)])
  expect(JSON.parse(text.replace(/^[\s\S]*data: /, ''))).toEqual(pong)
  const listed = await post({ jsonrpc: '2.0', id: 2, method: 'tools/list' }, { accept })
  expect(listed.text).toContain('desktop_create')
})

test('a stream ends the connection of a client that asks for it', async () => {
  const { hostname, port } = new URL(stack.url)
  const body = JSON.stringify(ping)
  const head = `POST /mcp HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${stack.org.key}\r\naccept: ${standard}\r\n`
  const socket = net.connect(Number(port), hostname)
  socket.write(`${head}connection: close\r\ncontent-length: ${body.length}\r\n\r\n${body}`)
  // Until the service closes it.
  const answer = await wholeText(socket)
  expect(answer).toMatch(/\r\nconnection: close\r\n/i)
  expect(answer).toContain('event: message')
})

test('a client that accepts neither form is 406; without the header it gets a document', async () => {
  const { status, json } = await post(ping, { accept: 'text/html' })
  expect([status, json.error.message]).toEqual([406, expect.stringContaining('application/json, text/event-stream')])
  const none = await stack.api('POST', '/mcp', { body: ping })
  expect([none.status, none.json]).toEqual([200, pong])
})

test('several messages are a batch in the revision that has them, and refused in those that do not', async () => {
  const two = [ping, { ...ping, id: 2 }]
  const batch = await post(two, { accept: 'application/json' })
  expect([batch.status, batch.json.map(({ id }: { id: number }) => id).sort()]).toEqual([200, [1, 2]])
  expect((await post(two, { 'mcp-protocol-version': '2025-03-26' })).status).toBe(200)
  for (const version of ['2025-06-18', '2025-11-25'])
    expect((await post(two, { 'mcp-protocol-version': version })).status).toBe(400)
  const empty = await post([])
  expect([empty.status, empty.json.error.code]).toEqual([400, -32_600])
})

test('what is no message of the protocol, or of a revision that it does not have, is 400', async () => {
  const unknown = await post(ping, { 'mcp-protocol-version': '1999-01-01' })
  expect([unknown.status, unknown.json.error.message]).toEqual([400, expect.stringContaining('supported')])
  for (const body of [{}, { hello: 1 }, 'nonsense', '"text"', '7', { jsonrpc: '1.0', id: 1, method: 'ping' }, [1]])
    expect([body, (await post(body)).status]).toEqual([body, 400])
  const initialize = { jsonrpc: '2.0', id: 4, method: 'initialize' }
  for (const [params, message] of [
    [undefined, '`params` must be an object'],
    [{}, '`params.protocolVersion` must be a string'],
    [{ protocolVersion: '2025-06-18', capabilities: {} }, '`params.clientInfo` must be an object'],
  ] as const) {
    const { json } = await post({ ...initialize, params }, { accept: 'application/json' })
    expect([json.id, json.error]).toEqual([4, { code: -32_602, message: `Invalid params: ${message}` }])
  }
  const call = { method: 'tools/call', params: { name: 'desktop_list', arguments: null } }
  const listed = await post({ jsonrpc: '2.0', id: 5, ...call }, { accept: 'application/json' })
  expect(listed.json.result.isError ?? false).toBe(false)
  const method = await post({ jsonrpc: '2.0', id: 3, method: 'no/such' }, { accept: 'application/json' })
  expect(method.json.error.code).toBe(-32_601)
})

test.each(['GET', 'DELETE', 'PUT'])('%s is 405: there are no sessions', async (method) => {
  const { status, headers } = await stack.api(method, '/mcp', { headers: { accept: 'text/event-stream' } })
  expect([status, headers.allow]).toEqual([405, 'POST'])
})

test('a client of the latest revision is served on one connection as long as it likes', async () => {
  const warnings: Error[] = []
  const note = (warning: Error) => void warnings.push(warning)
  process.on('warning', note)
  await using agent = await connect()
  for (let i = 0; i < 15; i++) await agent.call('desktop_list')
  process.off('warning', note)
  expect(warnings).toEqual([])
})

import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { createAdminClient } from './admin.ts'
import { type Client, type ClientOptions, createClient } from './client.ts'
import * as errors from './errors.ts'
import type { Clock } from './retry.ts'
import { desktop, desktopId, operation } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

/** Time that passes only when somebody sleeps, and keeps what was slept. */
function virtualClock() {
  const slept: number[] = []
  const clock: Clock = {
    now: () => Date.parse('2026-01-02T03:04:05Z'),
    random: () => 0.5,
    sleep: async (ms) => void slept.push(ms),
  }
  return { clock, slept }
}

async function start(script: Script, options: Partial<ClientOptions> = {}) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const { clock, slept } = virtualClock()
  const client = createClient({ baseUrl: server.baseUrl, apiKey: 'svc_sk_test', clock, ...options })
  return { client, slept, seen: server.seen, baseUrl: server.baseUrl }
}

/** Which requests may be sent again, by the contract: GETs and those with a key. */
const repeatable: [string, (client: Client) => Promise<unknown>][] = [
  ['listing', (client) => client.listDesktops()],
  ['reading a desktop', (client) => client.getDesktop(desktopId)],
  ['reading an operation', (client) => client.getOperation(desktopId)],
  ['reading a file', (client) => client.readFile(desktopId, '/etc/hosts')],
  ['usage', (client) => client.getUsage()],
  ['create', (client) => client.createDesktop({ tier: 'small' })],
  ['wake', (client) => client.wakeDesktop(desktopId)],
  ['hibernate', (client) => client.hibernateDesktop(desktopId)],
  ['destroy', (client) => client.destroyDesktop(desktopId)],
  ['exec', (client) => client.exec(desktopId, { command: 'true' })],
  ['deleting an exec', (client) => client.execs.delete(desktopId, desktopId)],
]

const unrepeatable: [string, (client: Client) => Promise<unknown>][] = [
  ['exec without a key', (client) => client.exec(desktopId, { command: 'true' }, { idempotencyKey: null })],
  ['writing a file', (client) => client.writeFile(desktopId, 'a', 'x')],
  ['a stream claim', (client) => client.openStream(desktopId, { claim: 'view' })],
]

const passing: [string, Script][] = [
  ['429', () => problem(429, 'rate_limited', 'slow down')],
  ['503', () => problem(503, 'not_leader', 'ask again')],
  ['504', () => problem(504, 'guest_deadline', 'too long')],
  ['a reset connection', () => 'reset'],
  ['an answer that breaks off', () => 'truncate'],
]

for (const [failure, script] of passing) {
  test.each(repeatable)(`${failure}: %s is sent 4 times in all`, async (_name, call) => {
    const { client, seen, slept } = await start(script)
    await expect(call(client)).rejects.toThrow(errors.DormouseError)
    expect(seen).toHaveLength(4)
    expect(slept).toEqual([125, 250, 500])
    expect(new Set(seen.map(({ headers }) => headers['idempotency-key'])).size).toBe(1)
    expect(new Set(seen.map(({ body }) => body.toString())).size).toBe(1)
  })

  test.each(unrepeatable)(`%s is sent once (${failure})`, async (_name, call) => {
    const { client, seen, slept } = await start(script)
    await expect(call(client)).rejects.toThrow(errors.DormouseError)
    expect([seen.length, slept]).toEqual([1, []])
  })
}

test('what creates an organisation, a key or an invitation is sent once', async () => {
  const { baseUrl, seen } = await start(() => problem(503, 'not_leader', ''))
  const admin = createAdminClient({ baseUrl, operatorKey: 'svc_op_test' })
  await expect(admin.createOrg({ name: 'a' })).rejects.toThrow(errors.UnavailableError)
  await expect(admin.createKey({ org_id: desktopId })).rejects.toThrow(errors.UnavailableError)
  await expect(admin.inviteHost()).rejects.toThrow(errors.UnavailableError)
  await expect(admin.revokeKey(desktopId)).rejects.toThrow(errors.UnavailableError)
  expect(seen).toHaveLength(4)
})

test.each([
  [400, 'invalid_request', errors.InvalidRequestError],
  [401, 'unauthenticated', errors.AuthenticationError],
  [403, 'forbidden', errors.PermissionDeniedError],
  [404, 'not_found', errors.NotFoundError],
  [405, 'method_not_allowed', errors.DormouseError],
  [409, 'wrong_state', errors.ConflictError],
  [409, 'stale_generation', errors.StaleGenerationError],
  [413, 'payload_too_large', errors.PayloadTooLargeError],
  [429, 'rate_limited', errors.RateLimitError],
  [500, 'internal', errors.ServerError],
  [501, 'not_implemented', errors.ServerError],
  [502, 'internal', errors.ServerError],
  [503, 'not_leader', errors.UnavailableError],
  [504, 'guest_deadline', errors.TimeoutError],
])('status %i with code %s becomes its error, with the problem attached', async (status, code, expected) => {
  const { client, seen } = await start(() => problem(status, code, 'what happened'))
  const failure = await client.getDesktop(desktopId).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(expected)
  expect(failure).toMatchObject({
    name: expected.name,
    message: 'what happened',
    status,
    code,
    problem: { detail: 'what happened' },
  })
  expect(seen).toHaveLength([429, 503, 504].includes(status) ? 4 : 1)
})

test('a failed operation seen while waiting names itself', async () => {
  const body = {
    type: 'about:blank',
    title: 'Conflict',
    status: 409,
    detail: 'no room',
    operation_id: 'op',
    code: 'operation_failed',
  }
  const { client } = await start(() => ({ status: 409, body }))
  const failure = await client.wakeDesktop(desktopId, {}, { wait: true }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(errors.OperationFailedError)
  expect(failure).toBeInstanceOf(errors.ConflictError)
  expect(failure).toMatchObject({ operationId: 'op', message: 'no room' })
})

test('a retry succeeds as if nothing had happened', async () => {
  const { client, seen } = await start((_request, turn) =>
    turn < 3 ? problem(503, 'not_leader', '') : { status: 201, body: desktop() },
  )
  expect(await client.createDesktop({ tier: 'small' })).toEqual(desktop())
  expect(seen).toHaveLength(4)
})

test.each([
  ['2', 2000],
  ['3600', 30_000],
  ['Fri, 02 Jan 2026 03:04:15 GMT', 10_000],
  ['Fri, 02 Jan 2099 03:04:15 GMT', 30_000],
  ['nonsense', 125],
])('Retry-After: %s is waited for', async (value, expected) => {
  const { client, slept } = await start((_request, turn) =>
    turn === 0 ? { status: 503, headers: { 'retry-after': value } } : { body: desktop() },
  )
  await client.getDesktop(desktopId)
  expect(slept).toEqual([expected])
})

test('retries can be changed for the client and for a call', async () => {
  const { client, seen } = await start(() => problem(503, 'not_leader', ''), { retries: 1 })
  await expect(client.getDesktop(desktopId)).rejects.toThrow()
  expect(seen).toHaveLength(2)
  await expect(client.getDesktop(desktopId, { retries: 0 })).rejects.toThrow()
  expect(seen).toHaveLength(3)
})

test('a refused connection is retried, then named with the system’s word for it', async () => {
  const port = await freePort()
  const { clock, slept } = virtualClock()
  const client = createClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: 'svc_sk_test', clock })
  const failure = await client.getDesktop(desktopId).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(errors.ConnectionError)
  expect((failure as Error).message).toContain('ECONNREFUSED')
  expect(slept).toHaveLength(3)
  await expect(client.openStream(desktopId, { claim: 'view' })).rejects.toThrow(errors.ConnectionError)
  expect(slept).toHaveLength(3)
})

test('a create without a key gets one, each its own, and a given key is sent as it is', async () => {
  const { client, seen } = await start(() => ({ status: 201, body: desktop() }))
  await client.createDesktop({ tier: 'small' })
  await client.createDesktop({ tier: 'small' })
  await client.createDesktop({ tier: 'small' }, { idempotencyKey: 'my own key' })
  const keys = seen.map(({ headers }) => headers['idempotency-key'])
  expect(keys[0]).toMatch(/^[0-9a-f]{32}$/)
  expect(keys[1]).not.toBe(keys[0])
  expect(keys[2]).toBe('my own key')
})

test('an abort while waiting to retry ends the call at once with the signal’s reason', async () => {
  const controller = new AbortController()
  const { client, seen } = await start(
    () => {
      setImmediate(() => controller.abort(new Error('enough')))
      return { status: 503, headers: { 'retry-after': '30' } }
    },
    { clock: undefined },
  )
  await expect(client.getDesktop(desktopId, { signal: controller.signal })).rejects.toThrow('enough')
  expect(seen).toHaveLength(1)
})

test('an abort while the server is silent ends the call, and nothing is sent again', async () => {
  const controller = new AbortController()
  const { client, seen } = await start(() => {
    controller.abort()
    return 'hang'
  })
  const failure = await client.getDesktop(desktopId, { signal: controller.signal }).catch((error: unknown) => error)
  expect(failure).toMatchObject({ name: 'AbortError' })
  expect(seen).toHaveLength(1)
})

test('a signal that is aborted already sends nothing', async () => {
  const { client, seen } = await start(() => ({ body: desktop() }))
  await expect(client.getDesktop(desktopId, { signal: AbortSignal.abort(new Error('no')) })).rejects.toThrow('no')
  expect(seen).toHaveLength(0)
})

test('a silent server ends in a TimeoutError, for the client’s limit and the call’s own', async () => {
  const { client } = await start(() => 'hang', { timeoutMs: 30 })
  await expect(client.getDesktop(desktopId)).rejects.toThrow(errors.TimeoutError)
  await expect(client.getDesktop(desktopId, { timeoutMs: 10 })).rejects.toThrow('timed out after 10 ms')
})

test('the limit covers the pauses between attempts', async () => {
  const { client, seen } = await start(() => ({ status: 503, headers: { 'retry-after': '30' } }), { clock: undefined })
  await expect(client.getDesktop(desktopId, { timeoutMs: 1000 })).rejects.toThrow(errors.TimeoutError)
  expect(seen).toHaveLength(1)
})

test('every request carries the credential, and a redirect is not followed with it', async () => {
  const { client, seen } = await start(() => ({ status: 307, headers: { location: '/elsewhere' } }))
  await expect(client.createDesktop({ tier: 'small' })).rejects.toMatchObject({ status: 307 })
  expect(seen.map(({ path }) => path)).toEqual(['/v1/desktops'])
  expect(seen[0]?.headers.authorization).toBe('Bearer svc_sk_test')
})

test('what a proxy answers in the service’s place is an error with its status', async () => {
  const { client } = await start(() => ({ status: 502, body: '<html>Bad Gateway</html>' }))
  const error = await client.getDesktop(desktopId).catch((one: unknown) => one)
  expect(error).toMatchObject({ status: 502 })
  expect(error).not.toHaveProperty('problem')
  const { client: lost } = await start(() => ({ status: 200, body: '<html>Welcome</html>' }))
  await expect(lost.getDesktop(desktopId)).rejects.toThrow('not JSON')
})

test('a credential that could not be sent is refused without being repeated', () => {
  const make = (apiKey: string) => () => createClient({ baseUrl: 'http://localhost', apiKey })
  expect(make('')).toThrow(errors.InvalidRequestError)
  expect(make('svc_sk_secret\nX: y')).toThrow(/^(?!.*secret)/)
  expect(() => createClient({ baseUrl: 'localhost:8080', apiKey: 'k' })).toThrow('baseUrl')
})

test('a missing address or credential is named with the variable that stands in for it', async () => {
  expect(() => createClient({ baseUrl: '', apiKey: 'svc_sk_x' })).toThrow(
    /baseUrl is missing; pass it, or set DORMOUSE_URL/,
  )
  expect(() => createClient({ baseUrl: 'http://x', apiKey: '' })).toThrow(/set DORMOUSE_API_KEY.*local\.json/)
})

test('an error as JSON says what happened', async () => {
  const { client } = await start(() => problem(409, 'wrong_state', 'the desktop is awake'))
  const error = await client.getDesktop(desktopId).catch((one: unknown) => one)
  expect(JSON.parse(JSON.stringify(error))).toEqual({
    name: 'ConflictError',
    code: 'wrong_state',
    message: 'the desktop is awake',
    method: 'GET',
    path: `/v1/desktops/${desktopId}`,
    status: 409,
  })
})

test('a printed error names its request, and has no field that is not known', async () => {
  const { client } = await start(() => problem(409, 'wrong_state', 'the desktop is awake'), { retries: 0 })
  const refused = await client.wakeDesktop(desktopId).catch((one: unknown) => one)
  expect(inspect(refused)).toContain("method: 'POST'")
  expect(inspect(refused)).toContain(`path: '/v1/desktops/${desktopId}/wake'`)
  const baseUrl = `http://127.0.0.1:${await freePort()}`
  const closed = createClient({ baseUrl, apiKey: 'k', retries: 0 })
  const lost = await closed.getUsage().catch((one: unknown) => one)
  const late = await client.getUsage({}, { timeoutMs: 0 }).catch((one: unknown) => one)
  expect([lost, late]).toMatchObject([
    { method: 'GET', path: '/v1/usage' },
    { method: 'GET', path: '/v1/usage' },
  ])
  const local = await client.getDesktop('..').catch((one: unknown) => one)
  for (const error of [refused, lost, late, local]) {
    expect(error).toBeInstanceOf(errors.DormouseError)
    expect(inspect(error)).not.toContain('undefined')
    expect(Object.values(error as object)).not.toContain(undefined)
  }
})

test('each answer’s status and headers can be seen, those of retries included', async () => {
  const { client } = await start((_request, turn) =>
    turn === 0
      ? problem(503, 'not_leader', '')
      : { status: 202, headers: { 'idempotency-replayed': 'true' }, body: operation() },
  )
  const statuses: unknown[] = []
  await client.wakeDesktop(
    desktopId,
    {},
    { onResponse: ({ status, headers }) => statuses.push([status, headers.get('idempotency-replayed')]) },
  )
  expect(statuses).toEqual([
    [503, null],
    [202, 'true'],
  ])
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  return port
}

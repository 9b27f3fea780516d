// Guarantee: above its limit, an unauthenticated address costs no look-up on any route; a client that was authenticated lately,
// and whoever monitors the process, is not delayed by what others do from the same address.
import { randomBytes, randomUUID } from 'node:crypto'
import { request } from 'node:http'
import { makeKey } from '@dormouse/control-plane/principals/keys.ts'
import pg from 'pg'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { Stack } from '../stack.ts'
import { waitFor } from '../wait-for.ts'
import { answered, challenged, enrol } from './parts/host-by-hand.ts'
import { RfbClient } from './parts/rfb-client.ts'

let stack: Stack

beforeAll(async () => {
  stack = await Stack.start({ controlPlane: { rateLimitStrangersPerSecond: 1, trustedProxies: ['127.0.0.1'] } })
})
afterAll(() => stack[Symbol.asyncDispose]())

interface Wish {
  method?: string
  authorization?: string | undefined
  body?: string
  isUpgrade?: boolean
  /** What the proxy says of who asks. */
  from?: string
  signal?: AbortSignal
}

/** Returns the status, and the headers; 0 if it was given up. */
function ask(path: string, { method = 'GET', authorization, body, isUpgrade, from, signal }: Wish = {}) {
  const { promise, resolve } = Promise.withResolvers<{ status: number; headers: Record<string, unknown> }>()
  const upgrade = {
    connection: 'upgrade',
    upgrade: 'websocket',
    'sec-websocket-key': randomBytes(16).toString('base64'),
    'sec-websocket-version': '13',
  }
  const headers = {
    ...(authorization && { authorization }),
    ...(from && { 'x-forwarded-for': from }),
    ...(isUpgrade && upgrade),
  }
  const sent = request(stack.url + path, { method, headers, agent: false, ...(signal && { signal }) }, (response) => {
    response.resume()
    resolve({ status: response.statusCode ?? 0, headers: response.headers })
  })
  sent.on('upgrade', (response, socket) => {
    socket.destroy()
    resolve({ status: response.statusCode ?? 0, headers: response.headers })
  })
  sent.on('error', () => resolve({ status: 0, headers: {} }))
  sent.end(body)
  return promise
}

const enrolment = () =>
  JSON.stringify({ token: randomUUID(), name: 'x', public_key: { kty: 'OKP', crv: 'Ed25519', x: 'A'.repeat(43) } })
const screen = () => `/screens/${randomUUID()}/view/${randomBytes(32).toString('base64url')}`

/** A link that no host signed for. */
async function proof(signal: AbortSignal) {
  const at = await challenged(stack)
  signal.addEventListener('abort', () => at.socket.terminate())
  const code = await answered(at, randomUUID(), 'A'.repeat(86))
  return { status: code === 1_006 ? 0 : Number(code) - 4_000, headers: {} }
}

/** Every route, with what makes it look into the database. */
const doors: [door: string, knock: (signal: AbortSignal) => ReturnType<typeof ask>][] = [
  ['customers', (signal) => ask('/v1/desktops', { signal, authorization: `Bearer ${makeKey('customer')}` })],
  ['a path below it', (signal) => ask('/v1/%zz', { signal, authorization: `Bearer ${makeKey('customer')}` })],
  ['operators', (signal) => ask('/admin/v1/hosts', { signal, authorization: `Bearer ${makeKey('operator')}` })],
  ['enrolment', (signal) => ask('/agent/v1/enrol', { signal, method: 'POST', body: enrolment() })],
  ['links', (signal) => proof(signal)],
  ['screens', (signal) => ask(screen(), { signal, isUpgrade: true })],
  ['files', (signal) => ask(screen().replace('/view/', '/').replace('screens', 'files'), { signal })],
]

/** Until it is disposed of, nobody can read the tables that these routes read. */
async function closedTables(): Promise<AsyncDisposable> {
  const client = new pg.Client({ connectionString: stack.database.url })
  await client.connect()
  await client.query('begin; lock table keys, host_invites, hosts, stream_claims, file_urls in access exclusive mode')
  return { [Symbol.asyncDispose]: () => client.end() }
}

test.each(doors)('beyond the limit, at the door of %s nothing is looked up', async (_door, knock) => {
  const given = new AbortController()
  await using _closed = await closedTables()
  // Those within the limit wait for the table: at most one in a second.
  const statuses: number[] = []
  const knocks = Array.from({ length: 20 }, async () => void statuses.push((await knock(given.signal)).status))
  await waitFor('the others to be answered', () => statuses.filter((status) => status === 429).length >= 15)
  given.abort()
  await Promise.all(knocks)
  expect(statuses.filter((status) => status !== 0 && status !== 429)).toEqual([])
})

test.each(['/nothing', '/docs', '/metrics', `/screens/${randomUUID()}/view`, '/%zz'])(
  'the limit is for %s, too',
  async (path) => {
    const answers = await Promise.all(Array.from({ length: 30 }, () => ask(path)))
    const refused = answers.find(({ status }) => status === 429)
    expect(refused?.headers).toMatchObject({ 'retry-after': '1', 'x-ratelimit-limit': '1' })
  },
)

test('a body is not waited for where its sender is one too many', async () => {
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => ask('/agent/v1/enrol', { method: 'POST', body: '{'.padEnd(4_000) })),
  )
  expect(answers.filter(({ status }) => status === 400).length).toBeLessThan(5)
  expect(answers.filter(({ status }) => status === 429).length).toBeGreaterThan(15)
})

/** Keeps the address of this machine beyond its limit meanwhile. */
async function beyond<T>(work: () => Promise<T>): Promise<T> {
  const over = new AbortController()
  const flood = Array.from({ length: 4 }, async () => {
    while (!over.signal.aborted) await ask('/v1/desktops')
  })
  try {
    await waitFor('the limit', async () => (await ask('/v1/desktops')).status === 429)
    return await work()
  } finally {
    over.abort()
    await Promise.all(flood)
  }
}

test('a credential that was good lately is looked up again beyond the limit, and one that is revoked becomes a stranger', async () => {
  const { principals } = stack.replica.parts
  const { id, api_key: key } = await principals.createKey(stack.org.id, 'lately')
  const status = async () => (await ask('/v1/desktops', { authorization: `Bearer ${key}` })).status
  expect(await status()).toBe(200)
  await beyond(async () => {
    // Longer than a key is trusted without a look.
    const ends = performance.now() + 1_200
    while (performance.now() < ends) expect(await status()).toBe(200)
    await principals.revokeKey(id)
    await waitFor('the key to count as unknown', async () => (await status()) === 429)
    expect((await ask('/v1/desktops', { authorization: `Bearer ${stack.org.key}` })).status).toBe(200)
  })
})

test('whoever watches over the process is answered from memory, and as often as he likes', async () => {
  await beyond(async () => {
    for (const path of ['/healthz', '/readyz', '/v1/openapi.json']) {
      const answers = await Promise.all(Array.from({ length: 50 }, () => ask(path)))
      expect([path, new Set(answers.map(({ status }) => status))]).toEqual([path, new Set([200])])
    }
  })
  const { pool } = stack.replica.parts
  await waitFor('an answer while no query can be made', async () => {
    const taken = await Promise.all(Array.from({ length: pool.options.max }, () => pool.connect()))
    const { status } = await ask('/readyz')
    for (const client of taken) client.release()
    return status === 200
  })
})

test('a host that came in lately comes in again beyond the limit', async () => {
  const host = await waitFor('an enrolment within the limit', () => enrol(stack).catch(() => undefined))
  const byProof = async () => {
    const at = await challenged(stack)
    return answered(at, host.id, host.signature(at.nonce))
  }
  await waitFor('a link', async () => (await byProof()) === 'accepted')
  const refused = () => stack.chronicle.find(/the control plane was not reached/).length
  const before = refused()
  await beyond(async () => {
    for (let i = 0; i < 3; i++) expect(await byProof()).toBe('accepted')
    await stack.restartAgent()
  })
  // Its agent would have tried until the limit left it a gap.
  expect(refused()).toBe(before)
})

test('an address that fills the room for newcomers makes room itself', async () => {
  const elsewhere = await challenged(stack, { 'x-forwarded-for': '203.0.113.200' })
  const many = await Promise.all(
    Array.from({ length: 300 }, () => challenged(stack, { 'x-forwarded-for': '203.0.113.201' })),
  )
  const open = () => many.filter(({ socket }) => socket.readyState === socket.OPEN).length
  await waitFor('the oldest of them to give way', () => open() === 255)
  expect(elsewhere.socket.readyState).toBe(elsewhere.socket.OPEN)
  for (const { socket } of [elsewhere, ...many]) socket.terminate()
})

test('a screen that was given out lately opens beyond the limit, and so does its ticket', async () => {
  const { id } = await stack.desktop('awake')
  const { websocket_url } = (await stack.api('POST', `/v1/desktops/${id}/stream`, { body: { claim: 'view' } })).json
  await beyond(async () => {
    const page = await RfbClient.connect(websocket_url, { page: true })
    const { ticket } = await waitFor('a ticket', () => page.notes[0])
    page.close()
    const back = await RfbClient.connect(websocket_url.replace(/[^/]+$/, ticket), { page: true })
    await back.frame()
    back.close()
  })
})

test('behind a trusted proxy each caller has his own limit, and none can choose his name', async () => {
  const answers = async (from: (i: number) => string) => {
    const all = await Promise.all(Array.from({ length: 20 }, (_, i) => ask('/v1/desktops', { from: from(i) })))
    return all.filter(({ status }) => status === 429).length
  }
  expect(await answers((i) => `203.0.113.${i}`)).toBe(0)
  expect(await answers(() => '203.0.113.100')).toBeGreaterThan(10)
  expect(await answers((i) => `198.51.100.${i}, 203.0.113.101`)).toBeGreaterThan(10)
  expect(await answers((i) => `2001:db8:1:2::${i.toString(16)}`)).toBeGreaterThan(10)
})

test('the address that a trusted proxy names leads the caller back, and nobody else’s word does', async () => {
  const { id } = await stack.desktop('awake')
  const headers = { 'x-forwarded-proto': 'https', 'x-forwarded-host': 'desks.example' }
  const url = async (origin: string) => {
    const authorization = `Bearer ${stack.org.key}`
    const sent = await fetch(`${origin}/v1/desktops/${id}/stream`, {
      method: 'POST',
      headers: { authorization, ...headers },
      body: '{"claim":"view"}',
    })
    return ((await sent.json()) as { url: string }).url
  }
  expect(await url(stack.url)).toMatch(/^https:\/\/desks\.example\/screens\//)
  const direct = await stack.addReplica(undefined, { trustedProxies: [], rateLimitStrangersPerSecond: 1_000 })
  await stack.linked(stack.host)
  expect(await url(direct.url)).toMatch(/^http:\/\/127\.0\.0\.1:/)
})

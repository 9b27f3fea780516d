import { inspect } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { createClient } from './client.ts'
import { Desktop } from './desktop.ts'
import { StaleGenerationError } from './errors.ts'
import { desktop, desktopId, operation, succeeded } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  return { at: { baseUrl: server.baseUrl, apiKey: 'svc_sk_test' }, seen: server.seen }
}

/** A service with one desktop, which accepts every request. */
const service: Script = ({ method, path, query }) => {
  const verb = path.split('/')[4]
  if (method === 'POST' && !verb) return { status: 201, body: desktop() }
  if (method === 'GET') return { body: desktop({ state: 'awake' }) }
  const kind = verb as 'wake' | 'hibernate' | 'destroy'
  const state = { wake: 'awake', hibernate: 'hibernated', destroy: 'destroyed' }[kind] as 'awake'
  if (!query.has('wait')) return { status: 202, body: operation({ kind }) }
  const { result } = succeeded()
  return { body: succeeded({ kind, result: { ...result!, desktop_state: state } }) }
}

test('create says in snake_case what was given in camelCase, and shows what came of it', async () => {
  const { at, seen } = await start(service)
  const made = await Desktop.create({ ...at, tier: 'small', billingMode: 'monthly', idleTimeoutSecs: 60 })
  expect(JSON.parse(String(seen[0]?.body))).toEqual({ tier: 'small', billing_mode: 'monthly', idle_timeout_secs: 60 })
  expect(seen[0]?.headers['idempotency-key']).toBeDefined()
  expect(made).toMatchObject({ id: desktopId, state: 'created', imageVersion: 'mini-1', generation: 0, hostId: null })
  expect(made.createdAt).toEqual(new Date('2026-01-02T03:04:05.678Z'))
  expect(JSON.parse(JSON.stringify(made))).toMatchObject({ orgId: made.orgId, currentGenerationId: null })
})

test('create without a word makes a desktop of the default tier', async () => {
  const { at, seen } = await start(service)
  await Desktop.create(at)
  await createClient(at).createDesktop()
  expect(seen.map(({ body }) => JSON.parse(String(body)))).toEqual([{ tier: 'default' }, { tier: 'default' }])
})

test('a printed desktop shows which it is, and in which state', async () => {
  const { at } = await start(service)
  const made = await Desktop.connect(desktopId, at)
  const shown = `Desktop { id: '${desktopId}', state: 'awake' }`
  expect(inspect(made).replaceAll(/\s+/g, ' ')).toBe(shown)
  expect([`${made}`, inspect(made.files)]).toEqual([desktopId, `Files { desktopId: '${desktopId}' }`])
  expect(inspect([made, { made }]).replaceAll(/\s+/g, ' ')).toBe(`[ ${shown}, { made: ${shown} } ]`)
})

test('connect only looks', async () => {
  const { at, seen } = await start(service)
  const found = await Desktop.connect(desktopId, at)
  expect(found.state).toBe('awake')
  expect(seen.map(({ method }) => method)).toEqual(['GET'])
})

test.each([
  ['wake', 'resume', 'awake'],
  ['hibernate', 'pause', 'hibernated'],
  ['destroy', 'kill', 'destroyed'],
] as const)('%s, also called %s, ends with what the desktop has become', async (verb, alias, state) => {
  const { at, seen } = await start(service)
  const made = await Desktop.create({ ...at, tier: 'small' })
  const operations: string[] = []
  const done = await made[verb]({ expectedGeneration: 0, onProgress: ({ kind }) => operations.push(kind) })
  expect(done.result).toMatchObject({ desktopState: state, durationMs: 1234 })
  expect(made).toMatchObject({ state, generation: 1, hostId: done.result?.hostId })
  expect(operations).toEqual([verb, verb])
  expect(JSON.parse(String(seen[1]?.body))).toEqual({ expected_generation: 0 })
  await made[alias]()
  expect(seen.at(-1)?.path).toBe(`/v1/desktops/${desktopId}/${verb}`)
})

test('memory is given up only when the caller says so', async () => {
  const { at, seen } = await start(service)
  const made = await Desktop.create({ ...at, tier: 'small' })
  await made.wake()
  expect(String(seen[1]?.body)).toBe('{}')
  await made.wake({ discardMemory: true })
  expect(String(seen[3]?.body)).toBe('{"discard_memory":true}')
})

test('a stale generation is an error of its own and leaves what was seen', async () => {
  const { at } = await start(({ method }) =>
    method === 'GET' ? { body: desktop({ generation: 2 }) } : problem(409, 'stale_generation', 'it is on 3'),
  )
  const found = await Desktop.connect(desktopId, at)
  await expect(found.hibernate({ expectedGeneration: 2 })).rejects.toThrow(StaleGenerationError)
  expect(found.generation).toBe(2)
})

test('list reads page after page, and no further than it is asked', async () => {
  const { at, seen } = await start(({ query }) => {
    const page = Number(query.get('cursor') ?? 0)
    const headers: Record<string, string> =
      page < 2 ? { link: `</v1/desktops?limit=2&cursor=${page + 1}>; rel="next"` } : {}
    const desktops = [desktop({ generation: page * 2 }), desktop({ generation: page * 2 + 1 })]
    return { headers, body: { desktops } }
  })
  const all = await Array.fromAsync(Desktop.list({ ...at, state: 'awake', pageSize: 2 }))
  expect(all.map(({ generation }) => generation)).toEqual([0, 1, 2, 3, 4, 5])
  expect(seen.map(({ query }) => query.toString())).toEqual([
    'state=awake&limit=2',
    'state=awake&limit=2&cursor=1',
    'state=awake&limit=2&cursor=2',
  ])
  await Desktop.list({ ...at, state: ['awake', 'waking'] }).next()
  expect(seen.at(-1)!.query.toString()).toBe('state=awake&state=waking&limit=100')
  for await (const first of Desktop.list(at)) {
    expect(first.generation).toBe(0)
    break
  }
  expect(seen).toHaveLength(5)
})

test('files are written from text or bytes and read as text by default', async () => {
  const { at, seen } = await start(({ method, path }) => {
    if (method === 'PUT') return { body: { path: '/tmp/a', size: 3 } }
    return path.includes('/files/') ? { body: 'süß' } : { body: desktop() }
  })
  const found = await Desktop.connect(desktopId, at)
  expect(await found.files.write('/tmp/a', Uint8Array.of(1, 2, 3))).toEqual({ path: '/tmp/a', size: 3 })
  expect(seen[1]?.body).toEqual(Buffer.from([1, 2, 3]))
  expect(await found.files.read('/tmp/a')).toBe('süß')
  expect(await found.files.read('/tmp/a', { format: 'bytes' })).toHaveLength(5)
})

test('the picture’s URL comes with its claim, a look by default', async () => {
  const answer = {
    url: 'http://x/#t',
    websocket_url: 'ws://x/t',
    expires_at: '2026-01-02T03:04:05.678Z',
    claim: 'view',
  }
  const { at, seen } = await start(({ method }) => ({ body: method === 'GET' ? desktop() : answer }))
  const found = await Desktop.connect(desktopId, at)
  expect(await found.stream.getUrl()).toMatchObject({ url: 'http://x/#t', websocketUrl: 'ws://x/t' })
  expect(JSON.parse(String(seen[1]?.body))).toEqual({ claim: 'view' })
})

test('the environment stands in for what is left out, read at the call', async () => {
  const { at } = await start(service)
  process.env.DORMOUSE_URL = at.baseUrl
  process.env.DORMOUSE_API_KEY = at.apiKey
  onTestFinished(() => {
    delete process.env.DORMOUSE_URL
    delete process.env.DORMOUSE_API_KEY
  })
  expect((await Desktop.connect(desktopId)).id).toBe(desktopId)
})

test('idle, its settings and wake locks speak in milliseconds and camelCase', async () => {
  const lock = { name: 'build', reason: 'a build', created_at: 'then', expires_at: 'later' }
  const { at, seen } = await start((request, ...rest) => {
    if (request.path.endsWith('/idle')) return { body: { sleeps_at: null, awake_because: [], wake_locks: [lock] } }
    if (request.method === 'PUT') return { body: lock }
    return request.method === 'DELETE' ? { body: { wake_locks: [lock] } } : service(request, ...rest)
  })
  const found = await Desktop.connect(desktopId, at)
  expect(await found.idle()).toMatchObject({ sleepsAt: null, wakeLocks: [{ createdAt: 'then', expiresAt: 'later' }] })
  expect(await found.lock('build', { reason: 'a build', forMs: 1_500 })).toMatchObject({ expiresAt: 'later' })
  expect(await found.unlock('build')).toMatchObject([{ name: 'build' }])
  const asked = seen.slice(-2).map(({ method, path, body }) => [method, path, String(body)])
  expect(asked).toEqual([
    ['PUT', `/v1/desktops/${desktopId}/wake-locks/build`, '{"reason":"a build","expires_in_secs":2}'],
    ['DELETE', `/v1/desktops/${desktopId}/wake-locks/build`, ''],
  ])
})

test('a change of its idle settings shows at once', async () => {
  const { at, seen } = await start(({ method }) =>
    method === 'PATCH' ? { body: desktop({ idle_timeout_secs: 60, idle_policy: ['cpu'] }) } : { body: desktop() },
  )
  const found = await Desktop.connect(desktopId, at)
  expect(await found.changeIdle({ idleTimeoutSecs: 60, idlePolicy: ['cpu'] })).toMatchObject({
    idleTimeoutSecs: 60,
    idlePolicy: ['cpu'],
  })
  expect(String(seen.at(-1)?.body)).toBe('{"idle_timeout_secs":60,"idle_policy":["cpu"]}')
})

test('files are listed page by page and changed with what was given', async () => {
  const entry = { path: '/srv/a', exact_path: true, type: 'file', size: 1, mode: '0644', uid: 0, gid: 0 }
  const shown = { ...entry, modified_at: '2026-11-02T09:30:00.000Z', target: null }
  const { at, seen } = await start(({ method, path, query }) => {
    if (!path.endsWith('/entries')) return { body: desktop({ state: 'awake' }) }
    if (method === 'POST') return { body: { entry: shown } }
    return {
      body: { entries: [shown], next_cursor: query.has('cursor') || query.get('depth') === '0' ? null : 'next' },
    }
  })
  const { files } = await Desktop.connect(desktopId, at)
  expect(await Array.fromAsync(files.list('/srv', { depth: 2, pageSize: 1 }))).toHaveLength(2)
  expect(await files.stat('/srv/a')).toMatchObject({ exactPath: true, modifiedAt: '2026-11-02T09:30:00.000Z' })
  await files.mkdir('/srv/b', { parents: false, mode: '0700' })
  await files.move('/srv/a', '/srv/c', { overwrite: true })
  await files.copy('/srv/c', '/srv/d', { recursive: true })
  await files.remove('/srv/d')
  await files.chmod('/srv/c', '0600')
  expect(seen.filter(({ method }) => method === 'POST').map(({ body }) => JSON.parse(String(body)))).toEqual([
    { action: 'mkdir', path: '/srv/b', parents: false, mode: '0700' },
    { action: 'move', path: '/srv/a', to: '/srv/c', overwrite: true },
    { action: 'copy', path: '/srv/c', to: '/srv/d', recursive: true },
    { action: 'remove', path: '/srv/d' },
    { action: 'chmod', path: '/srv/c', mode: '0600' },
  ])
})

test('a URL to hand on is made with what was given, listed and ended', async () => {
  const made = { id: desktopId, path: '/srv/a', method: 'PUT', max_bytes: 5, once: true, url: 'https://x/files/a/b' }
  const { at, seen } = await start(({ method, path }) => {
    if (!path.includes('/file-urls')) return { body: desktop({ state: 'awake' }) }
    if (method === 'DELETE') return { status: 204 }
    return method === 'POST' ? { status: 201, body: made } : { body: { file_urls: [made] } }
  })
  const { files } = await Desktop.connect(desktopId, at)
  const options = { method: 'PUT', maxBytes: 5, once: true, expiresMs: 1_500 } as const
  expect(await files.url('/srv/a', options)).toMatchObject({ url: made.url, maxBytes: 5 })
  expect(await files.urls()).toMatchObject([{ id: desktopId, once: true }])
  await files.revokeUrl(desktopId)
  expect(JSON.parse(String(seen[1]!.body))).toEqual({
    path: '/srv/a',
    method: 'PUT',
    max_bytes: 5,
    once: true,
    expires_in_secs: 2,
  })
})

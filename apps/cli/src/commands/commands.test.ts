import { desktop, desktopId, operation, operationId, succeeded } from '@dormouse/client/testing/samples'
import { problem, type Script } from '@dormouse/client/testing/scripted-server'
import { expect, test } from 'vitest'
import { exitCodes } from '../failures.ts'
import { start } from '../testing/process.ts'

/** A service with one desktop, which accepts every request. */
const service: Script = ({ method, path, query }) => {
  const verb = path.split('/')[4]
  if (method === 'POST' && !verb) return { status: 201, body: desktop() }
  if (method === 'PATCH') return { body: desktop() }
  if (path === '/v1/images') return { body: offered }
  if (path === '/v1/tiers') return { body: sizes }
  if (path === '/v1/desktops') return { body: { desktops: [desktop(), desktop({ state: 'awake', generation: 7 })] } }
  if (verb === 'operations') return { body: { operations: [succeeded(), operation({ kind: 'destroy' })] } }
  if (path === '/v1/events') return { body: { events: query.has('after') ? [] : [event], cursor: 'c' } }
  if (path.startsWith('/v1/operations')) return { body: succeeded() }
  if (method === 'GET') return { body: desktop({ state: 'awake', generation: 1 }) }
  const kind = verb as 'wake'
  return query.has('wait') ? { body: succeeded({ kind }) } : { status: 202, body: operation({ kind }) }
}

const offered = {
  images: [
    { image_version: 'mini', resolved_image_version: 'mini@1', is_default: true },
    { image_version: 'desktop', resolved_image_version: null, is_default: false },
  ],
}
const shares = {
  ...{ cpu_weight: 100, disk_iops: 2_000, disk_mib_per_second: 50, network_mbit_per_second: 100 },
  ...{ packets_per_second: null, connections: 1_000 },
}
/** A service of release 0.1 tells no shares. */
const sizes = {
  tiers: [
    { tier: 'small', vcpus: 1, memory_mib: 512, disk_gib: 10, shares },
    { tier: 'large', vcpus: 4, memory_mib: 512, disk_gib: 10 },
  ],
}

const event = { id: 'b', type: 'desktop.state', at: '2026-01-02T03:04:05.678Z', desktop_id: desktopId, data: {} }

const asked = (seen: { method: string; path: string; query: URLSearchParams; body: Buffer }[]) =>
  seen.map(({ method, path, query, body }) => `${method} ${path}?${query} ${body}`)

test.each<[string, string[], object]>([
  ['create', ['create'], desktop()],
  ['create --wake', ['create', '--wake'], desktop({ state: 'awake', generation: 1 })],
  ['list', ['list'], { desktops: [desktop(), desktop({ state: 'awake', generation: 7 })] }],
  ['get', ['get', desktopId], desktop({ state: 'awake', generation: 1 })],
  ['wake', ['wake', desktopId], succeeded()],
  ['hibernate', ['hibernate', desktopId], succeeded({ kind: 'hibernate' })],
  ['destroy', ['destroy', desktopId], succeeded({ kind: 'destroy' })],
  ['wake --no-wait', ['wake', desktopId, '--no-wait'], operation()],
  ['operations', ['operations', desktopId], { operations: [succeeded(), operation({ kind: 'destroy' })] }],
  ['operation', ['operation', operationId], succeeded()],
  ['images', ['images'], offered],
  ['tiers', ['tiers'], sizes],
  ['events', ['events'], { events: [event], cursor: 'c' }],
  ['operation --wait', ['operation', operationId, '--wait'], succeeded()],
])(
  '%s --json puts the one document, in the wire’s words, on stdout and nothing on stderr',
  async (_, args, document) => {
    const { dormouse } = await start(service)
    const { code, stdout, stderr } = await dormouse([...args, '--json'])
    expect({ code, stderr, document: JSON.parse(stdout) }).toEqual({ code: 0, stderr: '', document })
  },
)

test('images and tiers are tables for people', async () => {
  const { dormouse } = await start(service)
  const lines = async (name: string) =>
    (await dormouse([name])).stdout
      .trim()
      .split('\n')
      .map((line) => line.trim().split(/ {2,}/))
  expect(await lines('images')).toEqual([
    ['IMAGE', 'VERSION', 'DEFAULT'],
    ['mini', 'mini@1', 'yes'],
    ['desktop', '-', '-'],
  ])
  expect(await lines('tiers')).toEqual([
    ['TIER', 'VCPUS', 'MEMORY', 'DISK', 'WEIGHT', 'IOPS', 'MIB/S', 'MBIT/S', 'PACKETS/S', 'CONNECTIONS'],
    ['small', '1', '512 MiB', '10 GiB', '100', '2000', '50', '100', 'no limit', '1000'],
    ['large', '4', '512 MiB', '10 GiB', ...Array<string>(6).fill('-')],
  ])
})

test('create sends what was given and leaves the rest to the service', async () => {
  const { dormouse, seen } = await start(service)
  await dormouse(['create'])
  const given = ['--tier', 'large', '--billing-mode', 'monthly', '--image', 'x-2', '--idle-timeout-secs', '0']
  await dormouse(['create', ...given, '--idempotency-key', 'k 1', '--wake'])
  const body = '{"tier":"large","billing_mode":"monthly","image_version":"x-2","idle_timeout_secs":0}'
  expect(asked(seen)).toEqual([
    'POST /v1/desktops? {"tier":"default"}',
    `POST /v1/desktops? ${body}`,
    `POST /v1/desktops/${desktopId}/wake? {}`,
    `POST /v1/desktops/${desktopId}/wake?wait=true {}`,
    `GET /v1/desktops/${desktopId}? `,
  ])
  expect(seen.slice(1, 4).map(({ headers }) => headers['idempotency-key'])).toEqual(['k 1', 'k 1', 'k 1'])
})

test('a desktop whose first wake failed is shown all the same', async () => {
  const { dormouse } = await start(({ path }) =>
    path.endsWith('wake')
      ? problem(409, 'operation_failed', 'no host has capacity', { operation_id: 'op' })
      : { body: desktop() },
  )
  const { code, stdout, stderr } = await dormouse(['create', '--wake', '--json'])
  expect(code).toBe(5)
  expect(JSON.parse(stdout)).toEqual(desktop())
  expect(JSON.parse(stderr)).toMatchObject({ message: 'no host has capacity', code: 'operation_failed' })
})

test('create and set send an end and a schedule; a time zone without times is refused', async () => {
  const { dormouse, seen } = await start(service)
  await dormouse(['create', '--destroy-after', '2h'])
  const times = ['--schedule-wake', '0 8 * * 1-5', '--schedule-hibernate', '2026-01-31T18:00:00']
  await dormouse(['set', desktopId, ...times, '--time-zone', 'Europe/Berlin', '--no-destroy-after'])
  const schedule =
    '{"wake":{"cron":"0 8 * * 1-5","time_zone":"Europe/Berlin"},"hibernate":{"at":"2026-01-31T18:00:00","time_zone":"Europe/Berlin"}}'
  await dormouse(['set', desktopId, '--no-schedule-wake'])
  expect(asked(seen)).toEqual([
    'POST /v1/desktops? {"tier":"default","destroy_after_secs":7200}',
    `PATCH /v1/desktops/${desktopId}? {"destroy_after_secs":null,"schedule":${schedule}}`,
    `PATCH /v1/desktops/${desktopId}? {"schedule":{"wake":null}}`,
  ])
  for (const wrong of [
    ['set', desktopId, '--time-zone', 'Europe/Berlin'],
    ['create', '--destroy-after', '0s'],
  ])
    expect(await dormouse(wrong)).toMatchObject({ code: exitCodes.usage, stdout: '' })
})

test.each([
  ['wake', ['--discard-memory'], '{"discard_memory":true}'],
  ['hibernate', ['--expected-generation', '0'], '{"expected_generation":0}'],
  ['destroy', [], '{}'],
])('%s sends its options, and its key on every repeat', async (verb, options, body) => {
  const { dormouse, seen } = await start(service)
  const { code } = await dormouse([verb, desktopId, '--idempotency-key', 'k', ...options])
  expect(code).toBe(0)
  expect(asked(seen)).toEqual([
    `POST /v1/desktops/${desktopId}/${verb}? ${body}`,
    `POST /v1/desktops/${desktopId}/${verb}?wait=true ${body}`,
  ])
  expect(seen.map(({ headers }) => headers['idempotency-key'])).toEqual(['k', 'k'])
})

test('a key used before is said so, also when it was for something else', async () => {
  const replaying = (value: string) => start(() => ({ headers: { 'idempotency-replayed': value }, body: succeeded() }))
  const { dormouse } = await replaying('true')
  expect((await dormouse(['wake', desktopId, '--idempotency-key', 'k'])).stderr).toContain('used before')
  const { dormouse: other } = await replaying('mismatch')
  expect((await other(['wake', desktopId, '--idempotency-key', 'k'])).stderr).toContain('different request')
})

test('people read tables and sentences', async () => {
  const { dormouse } = await start(service)
  const listing = await dormouse(['list'])
  expect(listing.stdout.split('\n')[0]).toMatch(/^ID +NAME +STATE +TIER +IMAGE +GENERATION +LABELS +CREATED$/)
  expect(listing.stdout.split('\n')[2]).toContain('awake')
  expect((await dormouse(['get', desktopId])).stdout).toMatch(/state +awake/)
  expect((await dormouse(['wake', desktopId])).stdout).toBe(
    `${desktopId} is awake after 1.2 s; its memory was restored (generation 1)\n`,
  )
  expect((await dormouse(['operations', desktopId])).stdout).toMatch(/wake +succeeded .* 1\.2 s +memory/)
})

test('a wake whose image was not ready in time says so', async () => {
  const result = { ...succeeded().result!, resumed_from: 'image', ready: false } as const
  const { dormouse } = await start(({ method }) =>
    method === 'POST' ? { status: 202, body: operation() } : { body: succeeded({ result }) },
  )
  expect((await dormouse(['wake', desktopId])).stdout).toContain('booted from its image; not ready yet')
})

test('a desktop that is awake already is no failure, and says so', async () => {
  const { dormouse, seen } = await start(() => ({ body: succeeded() }))
  expect((await dormouse(['wake', desktopId])).stdout).toBe(`${desktopId} is awake already\n`)
  expect(asked(seen)).toEqual([`POST /v1/desktops/${desktopId}/wake? {"ensure":true}`])
})

test('an empty list says the next step, and nothing on stdout', async () => {
  const { dormouse } = await start(() => ({ body: { desktops: [] } }))
  expect(await dormouse(['list'])).toMatchObject({ code: 0, stdout: '', stderr: expect.stringContaining('create') })
  expect((await dormouse(['list', '--json'])).stdout).toBe('{\n  "desktops": []\n}\n')
})

test('events --follow writes a line for each event, also as JSON', async () => {
  const block = (text: string) => `id: b\ndata: ${text}\n\n`
  const settled = { ...event, type: 'operation.failed', data: { kind: 'wake', error: 'a\u009bb' } }
  const body = [event, settled].map((each) => block(JSON.stringify(each))).join('')
  const { dormouse } = await start(({ query }) =>
    // A stream that ends is requested again, from its last event.
    query.has('after')
      ? problem(401, 'unauthenticated', 'the key was revoked')
      : { headers: { 'content-type': 'text/event-stream' }, body },
  )
  const text = await dormouse(['events', '--follow'])
  expect(text.stdout).toBe(
    `b  ${event.at}  desktop.state  ${desktopId}  \nb  ${event.at}  operation.failed  ${desktopId}  wake a\ufffdb\n`,
  )
  const json = await dormouse(['events', '--follow', '--json'])
  expect(json.stdout).toBe(`${JSON.stringify(event)}\n${JSON.stringify(settled)}\n`)
})

test('what others wrote cannot steer the terminal', async () => {
  const { dormouse } = await start(() => ({ body: desktop({ image_version: 'a\u001b[31m\u009bb' }) }))
  expect((await dormouse(['get', desktopId])).stdout).toContain('a\ufffd[31m\ufffdb')
})

test('operators make organisations, keys and invitations with their own key', async () => {
  const time = '2026-01-02T03:04:05.678Z'
  const org = { id: desktopId, name: 'acme', max_desktops: null, created_at: time }
  const key = { id: operationId, org_id: desktopId, name: '', created_at: time, last_used_at: null, revoked_at: null }
  const invite = { token: 'one-time', expires_at: time }
  const command = 'desktop.ensureAsleep'
  const ids = { desktop_id: desktopId, host_id: desktopId, operation_id: operationId }
  const deferred = { ...ids, command, attempts: 3, last_tried_at: time, last_error: 'EROFS', created_at: time }
  const trusted = { id: desktopId, name: 'rack 4', withheld: null, was_withheld: true }
  const cordoned = { id: desktopId, name: 'rack 4', cordoned: true }
  const { dormouse, seen } = await start(({ method, path }) => {
    if (method === 'DELETE') return { status: 204 }
    if (method === 'PATCH') return { body: org }
    if (path.endsWith('orgs')) return { body: method === 'GET' ? { orgs: [org], default_max_desktops: 10_000 } : org }
    if (path.endsWith('keys')) return { body: method === 'GET' ? { keys: [key] } : { ...key, api_key: 'svc_sk_new' } }
    if (path.endsWith('deferred-commands')) return { body: { deferred_commands: [deferred] } }
    if (path.endsWith('/rack%204/trust')) return { body: trusted }
    if (path.endsWith('cordon')) return { body: cordoned }
    return { body: path.endsWith('invites') ? invite : { hosts: [] } }
  })
  const document = async (...args: string[]) => JSON.parse((await dormouse(['admin', ...args, '--json'])).stdout)
  expect(await document('org', 'create', 'acme')).toEqual(org)
  expect(await document('org', 'list')).toEqual({ orgs: [org], default_max_desktops: 10_000 })
  expect((await dormouse(['admin', 'org', 'list'])).stdout).toContain('10000 (default)')
  expect(await document('key', 'create', '--org', desktopId, '--name', 'ci')).toEqual({ ...key, api_key: 'svc_sk_new' })
  expect(await document('key', 'list', '--org', desktopId)).toEqual({ keys: [key] })
  expect(await document('key', 'revoke', operationId)).toEqual({ id: operationId, revoked: true })
  expect(await document('host', 'invite', '--valid-secs', '600')).toEqual(invite)
  expect(await document('host', 'list')).toEqual({ hosts: [] })
  expect(await document('deferred')).toEqual({ deferred_commands: [deferred] })
  expect((await dormouse(['admin', 'deferred'])).stdout).toMatch(/ asleep +3 +EROFS\n/)
  expect(await document('host', 'cordon', 'rack 4')).toEqual(cordoned)
  expect((await dormouse(['admin', 'host', 'cordon', 'rack 4'])).stdout).toMatch(/^rack 4 is cordoned/)
  expect((await dormouse(['admin', 'host', 'uncordon', 'rack 4'])).stdout).toMatch(/^rack 4 is not cordoned/)
  expect(await document('host', 'trust', 'rack 4')).toEqual(trusted)
  expect((await dormouse(['admin', 'host', 'trust', 'rack 4'])).stdout).toMatch(/^rack 4 is trusted/)
  trusted.was_withheld = false
  expect((await dormouse(['admin', 'host', 'trust', 'rack 4'])).stdout).toBe('rack 4 was not withheld; nothing to do\n')
  expect(new Set(seen.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer svc_op_secret']))
  expect(String(seen[3]?.body)).toBe(`{"org_id":"${desktopId}","name":"ci"}`)
  expect(await document('org', 'limit', desktopId, '--default')).toEqual(org)
  expect((await dormouse(['admin', 'org', 'limit', desktopId, '--max-desktops', '7'])).stdout).toContain('max desktops')
  expect(await dormouse(['admin', 'org', 'limit', desktopId])).toMatchObject({ code: exitCodes.usage, stdout: '' })
  expect(seen.filter(({ method }) => method === 'PATCH').map(({ path, body }) => `${path} ${body}`)).toEqual([
    `/admin/v1/orgs/${desktopId} {"max_desktops":null}`,
    `/admin/v1/orgs/${desktopId} {"max_desktops":7}`,
  ])
  const shown = await dormouse(['admin', 'key', 'create', '--org', desktopId])
  expect(shown.stdout).toContain('svc_sk_new')
  expect(shown.stderr).toContain('not shown again')
})

test('operators set, list and remove quotas of an organisation, and customers see theirs', async () => {
  const quota = { name: 'qa', select: 'team=qa', max_desktops: 20, desktops: 3 }
  const { dormouse, seen } = await start(({ method, path }) => {
    if (method === 'DELETE') return { status: 204 }
    if (path === '/v1/quotas') return { body: { max_desktops: 500, desktops: 12, quotas: [quota] } }
    return { body: method === 'GET' ? { quotas: [quota] } : quota }
  })
  const admin = (...args: string[]) => dormouse(['admin', 'org', ...args])
  const terms = ['--select', 'team=qa', '--max-desktops', '20']
  expect((await admin('set-quota', desktopId, 'qa', ...terms)).stdout).toMatch(/\nqa +team=qa +20 +3\n$/)
  expect(JSON.parse((await admin('set-quota', desktopId, 'qa', ...terms, '--json')).stdout)).toEqual(quota)
  expect(JSON.parse((await admin('quotas', desktopId, '--json')).stdout)).toEqual({ quotas: [quota] })
  expect((await admin('remove-quota', desktopId, 'qa')).stdout).toBe('qa is removed\n')
  expect(await admin('set-quota', desktopId, 'qa', '--select', 'a')).toMatchObject({ code: exitCodes.usage })
  expect((await dormouse(['quotas'])).stdout).toMatch(/\nall desktops +- +500 +12\nqa +team=qa +20 +3\n$/)
  expect(seen.slice(1).map(({ method, path, body }) => `${method} ${path} ${body}`)).toEqual([
    `PUT /admin/v1/orgs/${desktopId}/quotas/qa {"select":"team=qa","max_desktops":20}`,
    `GET /admin/v1/orgs/${desktopId}/quotas `,
    `DELETE /admin/v1/orgs/${desktopId}/quotas/qa `,
    'GET /v1/quotas ',
  ])
})

test('operators make, list, change and revoke their own keys, and revoke invitations', async () => {
  const time = '2026-01-02T03:04:05.678Z'
  const key = { id: operationId, name: 'ops', role: 'metrics', created_at: time, expires_at: null, revoked_at: null }
  const invite = { id: desktopId, name: null, created_at: time, expires_at: time, used_at: null, host_id: null }
  const { dormouse, seen } = await start(({ method, path }) => {
    if (method === 'DELETE') return { status: 204 }
    if (path.endsWith('invites')) return { body: { invites: [invite] } }
    return { body: method === 'GET' ? { operator_keys: [key] } : { ...key, operator_key: 'svc_op_new' } }
  })
  const admin = (...args: string[]) => dormouse(['admin', ...args])
  const made = await admin('operator-key', 'create', '--name', 'ops', '--role', 'metrics', '--valid-days', '2')
  expect(made).toMatchObject({ stdout: expect.stringContaining('svc_op_new'), stderr: expect.stringContaining('Save') })
  expect((await admin('operator-key', 'list')).stdout).toMatch(/ops +metrics/)
  await admin('operator-key', 'change', operationId, '--never-expires')
  expect(await admin('operator-key', 'change', operationId)).toMatchObject({ code: exitCodes.usage })
  expect((await admin('operator-key', 'revoke', operationId)).stdout).toContain('is revoked')
  expect((await admin('host', 'invites')).stdout).toMatch(/- +expired/)
  expect((await admin('host', 'uninvite', desktopId)).stdout).toContain('is revoked')
  expect(seen.map(({ method, path, body }) => `${method} ${path.replace('/admin/v1/', '')} ${body}`)).toEqual([
    'POST operator-keys {"name":"ops","role":"metrics","valid_secs":172800}',
    'GET operator-keys ',
    `PATCH operator-keys/${operationId} {"valid_secs":null}`,
    `DELETE operator-keys/${operationId} `,
    'GET hosts/invites ',
    `DELETE hosts/invites/${desktopId} `,
  ])
})

test('operators list desktops of a host by its name, hibernate and destroy them, and suspend an organisation', async () => {
  const { dormouse, seen } = await start(({ method, path }) => {
    if (path.endsWith('/hosts')) return { body: { hosts: [{ id: operationId, name: 'rack4-2' }] } }
    if (path.includes('/orgs/')) return { body: { id: desktopId, name: 'acme', suspended_at: 'now' } }
    if (path.includes('/operations/')) return { body: succeeded({ kind: 'destroy' }) }
    if (method === 'POST') return { status: 202, body: operation({ kind: 'destroy' }) }
    return { body: path.endsWith('/desktops') ? { desktops: [desktop()] } : desktop() }
  })
  const admin = (...args: string[]) => dormouse(['admin', ...args])
  expect((await admin('desktop', 'list', '--host', 'rack4-2', '--state', 'awake')).stdout).toContain(desktopId)
  expect(Object.fromEntries(seen[1]!.query)).toEqual({ host_id: operationId, state: 'awake' })
  expect(await admin('desktop', 'list', '--host', 'nobody')).toMatchObject({ code: exitCodes.notFound })
  expect((await admin('desktop', 'get', desktopId)).stdout).toContain('organisation')
  expect(JSON.parse((await admin('desktop', 'hibernate', desktopId, '--no-wait', '--json')).stdout).state).toBe(
    'pending',
  )
  expect((await admin('desktop', 'destroy', desktopId)).stdout).toContain(`${desktopId} is `)
  expect((await admin('org', 'suspend', desktopId)).stdout).toMatch(/^acme is suspended/)
  expect((await admin('org', 'resume', desktopId)).stdout).toMatch(/^acme is not suspended/)
})

test('the audit log shows names, and with --json one entry a line, over all its pages', async () => {
  const entry = { id: 2, at: 'now', actor: 'key:x', action: 'org.create', subject: desktopId, details: {} }
  const named = { ...entry, actor_name: 'alice', subject_name: 'acme' }
  const { dormouse, seen } = await start(({ query }) => ({
    body: { entries: [named] },
    ...(!query.has('cursor') && { headers: { link: '</admin/v1/audit?cursor=2>; rel="next"' } }),
  }))
  const audit = (...args: string[]) => dormouse(['admin', 'audit', ...args])
  const shown = await audit('--actor', 'alice', '--since', '2026-01-01T00:00')
  expect(shown.stdout).toMatch(/now +alice +org\.create +acme/)
  expect(shown.stderr).toContain('--cursor 2')
  expect(Object.fromEntries(seen[0]!.query)).toEqual({ actor: 'alice', since: '2026-01-01T00:00:00.000Z' })
  expect((await audit('--json')).stdout).toBe(`${JSON.stringify(named)}\n`.repeat(2))
  expect((await audit('--json', '--limit', '1')).stdout).toBe(`${JSON.stringify(named)}\n`)
  expect(await audit('--until', 'soon')).toMatchObject({ code: exitCodes.usage })
})

test('operators move a desktop, wait for it, and learn why it did not move', async () => {
  const accepted = { id: operationId, desktop_id: desktopId, kind: 'move', state: 'running', progress: null }
  const result = { desktop_state: 'awake', host_id: operationId, duration_ms: 1_200, cleanup: 'deferred' }
  let settled: object = { ...accepted, state: 'succeeded', settled_at: 'now', result }
  const { dormouse, seen } = await start(({ method }) => ({ body: method === 'GET' ? settled : accepted }))
  const move = (...args: string[]) => dormouse(['admin', 'desktop', 'move', desktopId, ...args])
  expect((await move('--to', 'rack 4')).stdout).toMatch(
    / is awake on host .* after 1\.2 s; its old host is unreachable/,
  )
  expect(String(seen[0]?.body)).toBe('{"to":"rack 4"}')
  expect(JSON.parse((await move('--hibernate', '--no-wait', '--json')).stdout)).toEqual(accepted)
  expect(String(seen.at(-1)?.body)).toBe('{"mode":"hibernate"}')
  settled = { ...settled, result: { ...result, cleanup: 'done', moved: 'hibernated' } }
  expect((await move('--hibernate')).stdout).toContain('after 1.2 s; it was hibernated on the way\n')
  settled = { ...accepted, state: 'failed', error: 'no host', error_code: 'no_host', cause: 'h2 is cordoned' }
  const failed = await move()
  expect([failed.code, failed.stderr]).toEqual([exitCodes.operationFailed, expect.stringContaining('h2 is cordoned')])
  expect(failed.stderr).toContain(`admin operation ${operationId}`)
})

test('a list of hosts tells what ails one, and what to do', async () => {
  const none = { vcpus: 0, memory_mib: 0, disk_gib: 0 }
  const sample = { id: desktopId, name: 'h1', state: 'active', linked: true, capacity: none }
  const host = { ...sample, reserved: none, desktops: 1, ailment: 'the disk is full; destroy desktops' }
  const { dormouse } = await start(() => ({ body: { hosts: [host] } }))
  const shown = await dormouse(['admin', 'host', 'list'])
  expect(shown.stdout).toMatch(/h1 .* the disk is full; destroy desktops/)
})

const rows = [{ desktop_id: desktopId, name: 'a', state: 'awake', status: 'waiting', reason: null, operation_id: null }]
const plan = (changes: object = {}) => ({
  ...{ id: operationId, action: 'destroy', select: 'team=qa', state: 'running', created_at: null, settled_at: null },
  progress: { total: 1, waiting: 1, working: 0, succeeded: 0, failed: 0, skipped: 0, cancelled: 0 },
  desktops: rows,
  ...changes,
})

test.each([
  ['a rehearsal of one desktop', ['destroy', desktopId, '--dry-run'], '--dry-run is only for --select'],
  ['a rehearsal of a change', ['set', desktopId, '--label', 'a=b', '--dry-run'], '--dry-run is only for --select'],
  ['a generation of many', ['destroy', '--select', 'a', '--expected-generation', '1'], 'cannot be used with'],
  ['a memory of many', ['wake', '--select', 'a', '--discard-memory'], 'cannot be used with'],
  ['a name of many', ['set', '--select', 'a', '--label', 'a=b', '--name', 'x'], 'cannot be used with'],
  ['an end of many', ['set', '--select', 'a', '--destroy-after', '1d'], 'cannot be used with'],
  ['no change', ['set', desktopId], 'nothing to change'],
  ['no change of many', ['set', '--select', 'a'], 'nothing to change'],
  ['neither', ['destroy'], 'no desktop is named'],
  ['both', ['destroy', desktopId, '--select', 'a'], 'give one of them'],
])('%s is refused, and nothing is sent', async (_, args, why) => {
  const { dormouse, seen } = await start(service)
  const { code, stderr } = await dormouse(args)
  expect([code, stderr]).toEqual([2, expect.stringContaining(why)])
  expect(seen).toEqual([])
})

test('an empty name is sent as it is, so that it is refused and takes no name away', async () => {
  const { dormouse, seen } = await start(service)
  await dormouse(['set', desktopId, '--name', ''])
  await dormouse(['set', desktopId, '--no-name'])
  expect(seen.map(({ body }) => `${body}`)).toEqual(['{"name":""}', '{"name":null}'])
})

test('the plan of many desktops is named, followed and cancelled by its id', async () => {
  const { dormouse, seen } = await start(({ method, path }) =>
    path.endsWith('/cancel')
      ? { body: plan({ settled_at: 'x' }) }
      : { status: method === 'POST' ? 202 : 200, body: plan() },
  )
  const begun = await dormouse(['destroy', '--select', 'team=qa', '--no-wait'])
  expect(begun.stdout).toContain(`dormouse bulk ${operationId}`)
  expect((await dormouse(['bulk', operationId])).stdout).toContain('1 waiting')
  expect((await dormouse(['bulk', operationId, '--cancel'])).stdout).not.toContain('goes on')
  expect(asked(seen)).toEqual([
    'POST /v1/desktops/bulk? {"action":"destroy","select":"team=qa"}',
    `GET /v1/desktops/bulk/${operationId}? `,
    `POST /v1/desktops/bulk/${operationId}/cancel? `,
  ])
})

test('a label’s value does not pass for another label', async () => {
  const labels = { team: 'qa', note: 'x prod=yes "' }
  const { dormouse } = await start(() => ({ body: { desktops: [desktop({ labels })] } }))
  expect((await dormouse(['list'])).stdout).toContain(' team=qa note="x prod=yes \\"" ')
})

test('copies are listed and restored, and a policy is put', async () => {
  const copy = {
    id: operationId,
    kind: 'memory',
    taken_at: '2026-01-02T03:04:05.678Z',
    size_bytes: 3_000_000,
    vault: 'main',
  }
  const { dormouse, seen } = await start(({ method, path }) => {
    if (path.endsWith('/copies')) return { body: { copies: [copy] } }
    if (method === 'PUT')
      return {
        body: {
          name: 'qa',
          select: 'team=qa',
          when: 'every-sleep',
          keep: { last: 1, daily: 0, weekly: 0 },
          recover: 'manual',
        },
      }
    return { body: succeeded() }
  })
  expect((await dormouse(['copies', 'list', desktopId])).stdout).toMatch(
    /memory +2026-01-02T03:04:05.678Z +3 MiB +main/,
  )
  expect((await dormouse(['copies', 'restore', desktopId, operationId])).code).toBe(0)
  const put = await dormouse(['copies', 'policy', 'qa', '--select', 'team=qa', '--keep', 'last=1,daily=0'])
  expect(put.stdout).toContain('last=1,daily=0,weekly=0')
  expect(JSON.parse(String(seen.at(-1)!.body))).toEqual({ select: 'team=qa', keep: { last: 1, daily: 0 } })
  expect((await dormouse(['copies', 'policy', 'qa', '--keep', 'many'])).code).toBe(2)
})

test('a taken name says which desktop has it', async () => {
  const body = problem(409, 'name_taken', 'another desktop has this name', { desktop_id: desktopId })
  const { dormouse } = await start(() => body)
  expect((await dormouse(['create', '--name', 'build-1'])).stderr).toContain(`dormouse get ${desktopId}`)
})

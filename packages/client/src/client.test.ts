import { expect, onTestFinished, test } from 'vitest'
import { createAdminClient } from './admin.ts'
import { createClient } from './client.ts'
import { OperationFailedError, TimeoutError } from './errors.ts'
import { nextCursor } from './pages.ts'
import { desktop, desktopId, operation, operationId, succeeded } from './testing/samples.ts'
import { problem, type Script, serve } from './testing/scripted-server.ts'

async function start(script: Script) {
  const server = await serve(script)
  onTestFinished(() => server[Symbol.asyncDispose]())
  const slept: number[] = []
  const clock = { now: () => Date.now(), random: () => 0.5, sleep: async (ms: number) => void slept.push(ms) }
  const at = { baseUrl: server.baseUrl, clock }
  const client = createClient({ ...at, apiKey: 'svc_sk_test' })
  const admin = createAdminClient({ ...at, operatorKey: 'svc_op_test' })
  return { client, admin, slept, seen: server.seen }
}

test('each call of a customer has its route, method, query and body', async () => {
  const { client, seen } = await start(() => ({ body: {} }))
  await client.getOpenapi()
  await client.listDesktops({ state: 'awake', limit: 5, cursor: 'c&d' })
  await client.createDesktop({ tier: 'small', billing_mode: null })
  await client.getDesktop(desktopId)
  await client.wakeDesktop(desktopId, { discard_memory: true }, { wait: true })
  await client.hibernateDesktop(desktopId, { expected_generation: 3 })
  await client.destroyDesktop(desktopId, {}, { wait: false })
  await client.getOperation(operationId)
  await client.listOperations(desktopId)
  await client.exec(desktopId, { command: ['ls', '-l'], timeout_secs: 5 })
  await client.writeFile(desktopId, '/tmp/a b/ü.json', '{}', { mode: '0600' })
  await client.readFile(desktopId, 'etc/hosts')
  await client.openStream(desktopId, { claim: 'control', takeover: true })
  await client.screenshot(desktopId)
  await client.takeScreenshot(desktopId, {
    region: { x: 1, y: 2, width: 3, height: 4 },
    fit: 99,
    wait: 'changed',
    maxMs: 50,
  })
  await client.getScreen(desktopId)
  await client.readClipboard(desktopId)
  await client.writeClipboard(desktopId, { text: 'x' })
  await client.getUsage({ start: 0, end: 1.5 })
  await client.listImages()
  await client.listTiers()
  await client.listQuotas()
  const at = `/v1/desktops/${desktopId}`
  expect(seen.map(({ method, path, query, body }) => `${method} ${path}?${query} ${body}`)).toEqual([
    'GET /v1/openapi.json? ',
    'GET /v1/desktops?state=awake&limit=5&cursor=c%26d ',
    'POST /v1/desktops? {"tier":"small","billing_mode":null}',
    `GET ${at}? `,
    `POST ${at}/wake?wait=true {"discard_memory":true}`,
    `POST ${at}/hibernate? {"expected_generation":3}`,
    `POST ${at}/destroy?wait=false {}`,
    `GET /v1/operations/${operationId}? `,
    `GET ${at}/operations? `,
    `POST ${at}/exec? {"command":["ls","-l"],"timeout_secs":5}`,
    `PUT ${at}/files/tmp/a%20b/%C3%BC.json?mode=0600 {}`,
    `GET ${at}/files/etc/hosts? `,
    `POST ${at}/stream? {"claim":"control","takeover":true}`,
    `GET ${at}/screenshot? `,
    `GET ${at}/screenshot?fit=99&wait=changed&format=png&region=1%2C2%2C3%2C4&max_ms=50 `,
    `GET ${at}/screen? `,
    `GET ${at}/clipboard? `,
    `PUT ${at}/clipboard? {"text":"x"}`,
    'GET /v1/usage?start=0&end=1.5 ',
    'GET /v1/images? ',
    'GET /v1/tiers? ',
    'GET /v1/quotas? ',
  ])
})

test('each call of an operator has its route, method and body, and the operator’s key', async () => {
  const { admin, seen } = await start(({ method }) => (method === 'DELETE' ? { status: 204 } : { body: {} }))
  await admin.createOrg({ name: 'acme' })
  await admin.listOrgs()
  await admin.changeOrg(desktopId, { max_desktops: null })
  await admin.listQuotas(desktopId)
  await admin.setQuota(desktopId, 'qa', { select: 'team=qa', max_desktops: 5 })
  await admin.removeQuota(desktopId, 'q/a')
  await admin.createKey({ org_id: desktopId, name: 'ci' })
  await admin.listKeys(desktopId)
  expect(await admin.revokeKey(operationId)).toBeUndefined()
  await admin.inviteHost({ valid_secs: 600 })
  await admin.previewRemoval('hv 3')
  await admin.removeHost('hv 3', { yes_lose: 2 })
  await admin.cordonHost('hv 3')
  await admin.uncordonHost('hv 3')
  await admin.drainHost('hv 3', { dry_run: true })
  await admin.getDrain(operationId)
  await admin.cancelDrain(operationId)
  await admin.loseHost('hv 3', { yes_lose: 2 })
  await admin.returnHost('hv 3')
  await admin.addImage({ name: 'mini', version: '1', from: 'https://images/' })
  await admin.listImages()
  await admin.getImage('mini@1')
  await admin.useImage('mini@1')
  await admin.retireImage('mini@1')
  await admin.moveDesktop(desktopId, { to: 'hv 3' })
  await admin.getOperation(operationId)
  await admin.listDeferred()
  await admin.listAlarms()
  await admin.listHosts()
  await admin.listReplicas()
  await admin.planUpgrade('0.2.0')
  await admin.upgradeHosts({ batch: 2 })
  await admin.getUpgrade(operationId)
  await admin.listUpgrades()
  await admin.cancelUpgrade(operationId)
  await admin.listAudit({ subject: desktopId, limit: 5, cursor: '9' })
  expect(seen.map(({ method, path, query, body }) => `${method} ${path}?${query} ${body}`)).toEqual([
    'POST /admin/v1/orgs? {"name":"acme"}',
    'GET /admin/v1/orgs? ',
    `PATCH /admin/v1/orgs/${desktopId}? {"max_desktops":null}`,
    `GET /admin/v1/orgs/${desktopId}/quotas? `,
    `PUT /admin/v1/orgs/${desktopId}/quotas/qa? {"select":"team=qa","max_desktops":5}`,
    `DELETE /admin/v1/orgs/${desktopId}/quotas/q%2Fa? `,
    `POST /admin/v1/keys? {"org_id":"${desktopId}","name":"ci"}`,
    `GET /admin/v1/keys?org_id=${desktopId} `,
    `DELETE /admin/v1/keys/${operationId}? `,
    'POST /admin/v1/hosts/invites? {"valid_secs":600}',
    'GET /admin/v1/hosts/hv%203/removal? ',
    'POST /admin/v1/hosts/hv%203/removal? {"yes_lose":2}',
    'POST /admin/v1/hosts/hv%203/cordon? {}',
    'POST /admin/v1/hosts/hv%203/uncordon? {}',
    'POST /admin/v1/hosts/hv%203/drain? {"dry_run":true}',
    `GET /admin/v1/drains/${operationId}? `,
    `POST /admin/v1/drains/${operationId}/cancel? {}`,
    'POST /admin/v1/hosts/hv%203/loss? {"yes_lose":2}',
    'POST /admin/v1/hosts/hv%203/return? {}',
    'POST /admin/v1/images? {"name":"mini","version":"1","from":"https://images/"}',
    'GET /admin/v1/images? ',
    'GET /admin/v1/images/mini%401? ',
    'POST /admin/v1/images/mini%401/use? {}',
    'POST /admin/v1/images/mini%401/retire? {}',
    `POST /admin/v1/desktops/${desktopId}/move? {"to":"hv 3"}`,
    `GET /admin/v1/operations/${operationId}? `,
    'GET /admin/v1/deferred-commands? ',
    'GET /admin/v1/alarms? ',
    'GET /admin/v1/hosts? ',
    'GET /admin/v1/replicas? ',
    'GET /admin/v1/upgrades/plan?version=0.2.0 ',
    'POST /admin/v1/upgrades? {"batch":2}',
    `GET /admin/v1/upgrades/${operationId}? `,
    'GET /admin/v1/upgrades? ',
    `POST /admin/v1/upgrades/${operationId}/cancel? {}`,
    `GET /admin/v1/audit?subject=${desktopId}&limit=5&cursor=9 `,
  ])
  expect(new Set(seen.map(({ headers }) => headers.authorization))).toEqual(new Set(['Bearer svc_op_test']))
})

test.each(['', '.', '..'])('an id of "%s" is refused before it becomes another route', async (id) => {
  const { client, seen } = await start(() => ({ body: {} }))
  await expect(client.getDesktop(id)).rejects.toThrow('not an id')
  expect(seen).toHaveLength(0)
})

test('an id with slashes stays one segment', async () => {
  const { client, seen } = await start(() => ({ body: {} }))
  await client.getDesktop('../operations/x?y#z')
  expect(seen[0]?.path).toBe('/v1/desktops/..%2Foperations%2Fx%3Fy%23z')
})

test.each(['', '/', 'a/../b', '..', 'a/', 'a/.'])('the guest path "%s" is refused', async (file) => {
  const { client } = await start(() => ({ body: {} }))
  await expect(client.readFile(desktopId, file)).rejects.toThrow('not the path of a file')
})

test.each([
  ['</v1/desktops?limit=2&cursor=abc>; rel="next"', 'abc'],
  ['<https://evil.example/x?cursor=abc>; rel=next', 'abc'],
  ['</v1/desktops?cursor=first>; rel="first", </v1/desktops?cursor=second>; rel="next"', 'second'],
  ['</v1/desktops?cursor=abc>; rel="prev"', undefined],
  [null, undefined],
])('the next page of Link %s', (link, expected) => {
  expect(nextCursor(link)).toBe(expected)
})

test('a file is read in the format asked for, and as a stream before it is whole', async () => {
  const bytes = Uint8Array.of(0, 255, 10, 13)
  const { client } = await start(() => ({ body: bytes }))
  expect(await client.readFile(desktopId, 'a')).toEqual(bytes)
  expect(await client.readFile(desktopId, 'a', { format: 'text' })).toHaveLength(4)
  expect((await client.readFile(desktopId, 'a', { format: 'blob' })).size).toBe(4)
  const chunks = await Array.fromAsync(await client.readFile(desktopId, 'a', { format: 'stream' }))
  expect(Buffer.concat(chunks)).toEqual(Buffer.from(bytes))
})

test('settling asks once for the handle, then waits with the same key and body until it has settled', async () => {
  const { client, seen, slept } = await start((_request, turn) => {
    if (turn === 0) return { status: 202, body: operation() }
    return { body: turn < 3 ? operation({ state: 'running' }) : succeeded() }
  })
  const states: string[] = []
  const done = await client.settle('wake', desktopId, {}, { onProgress: ({ state }) => states.push(state) })
  expect(done).toEqual(succeeded())
  expect(states).toEqual(['pending', 'running', 'running', 'succeeded'])
  expect(seen.map(({ query }) => query.get('wait'))).toEqual([null, 'true', 'true', 'true'])
  expect(new Set(seen.map(({ headers, body }) => `${headers['idempotency-key']} ${body}`)).size).toBe(1)
  expect(slept).toEqual([250, 250])
})

test('with `ensure` it asks once, and then reads the operation: a repeat would look again', async () => {
  const { client, seen } = await start(({ method }) =>
    method === 'GET' ? { body: succeeded() } : { status: 202, body: operation() },
  )
  expect(await client.settle('wake', desktopId, { ensure: true })).toEqual(succeeded())
  expect(seen.map(({ method, path }) => `${method} ${path.split('/')[2]}`)).toEqual(['POST desktops', 'GET operations'])
})

test('a service that does not know `ensure` is asked without it', async () => {
  const { client, seen } = await start(({ body }) =>
    String(body).includes('ensure') ? problem(400, 'invalid_request', 'x', { field: 'ensure' }) : { body: succeeded() },
  )
  expect(await client.settle('wake', desktopId, { ensure: true })).toEqual(succeeded())
  expect(seen.map(({ body }) => String(body))).toEqual(['{"ensure":true}', '{}'])
})

test('an operation that has settled already is not asked for again', async () => {
  const { client, seen } = await start(() => ({ status: 200, body: succeeded() }))
  expect(await client.settle('wake', desktopId)).toEqual(succeeded())
  expect(seen).toHaveLength(1)
})

test('a failed operation is an error that says why, whether it is seen at once or while waiting', async () => {
  const failed = operation({ state: 'failed', error: 'no host has capacity', settled_at: '2026-01-02T03:04:05.678Z' })
  const { client } = await start(() => ({ body: failed }))
  const atOnce = await client.settle('wake', desktopId).catch((error: unknown) => error)
  expect(atOnce).toBeInstanceOf(OperationFailedError)
  expect(atOnce).toMatchObject({ message: 'no host has capacity', operation: failed, operationId })
  const { client: other } = await start(({ query }) =>
    query.has('wait')
      ? problem(409, 'operation_failed', 'no host has capacity', { operation_id: operationId })
      : { status: 202, body: operation() },
  )
  const waiting = await other.settle('wake', desktopId).catch((error: unknown) => error)
  expect(waiting).toBeInstanceOf(OperationFailedError)
  expect(waiting).toMatchObject({ message: 'no host has capacity', operationId })
})

test('a wait outlives a restart of the service', async () => {
  const { client, seen } = await start((_request, turn) => {
    if (turn === 0) return { status: 202, body: operation() }
    return turn < 7 ? 'reset' : { body: succeeded() }
  })
  expect(await client.settle('wake', desktopId)).toEqual(succeeded())
  expect(seen).toHaveLength(8)
})

test('a wait that takes too long names the operation, which goes on', async () => {
  const { client } = await start(({ query }) => (query.has('wait') ? 'hang' : { status: 202, body: operation() }))
  const failure = await client.settle('wake', desktopId, {}, { timeoutMs: 1000 }).catch((error: unknown) => error)
  expect(failure).toBeInstanceOf(TimeoutError)
  expect(failure).toMatchObject({ operationId })
})

test('an operation known by its id alone is awaited at the service, and looked at after growing pauses where that does not hold the request', async () => {
  const { client, slept, seen } = await start((_request, turn) => ({ body: turn < 6 ? operation() : succeeded() }))
  expect(await client.waitForOperation(operationId)).toEqual(succeeded())
  expect(slept).toEqual([250, 500, 1000, 2000, 2000])
  expect(seen.map(({ query }) => query.get('wait'))).toEqual([null, ...Array(6).fill('true')])
})

test('operators wait in the same way', async () => {
  const { admin, slept, seen } = await start((_request, turn) => ({ body: turn < 3 ? operation() : succeeded() }))
  expect(await admin.waitForOperation(operationId)).toEqual(succeeded())
  expect(slept).toEqual([250, 500])
  expect(seen.map(({ path, query }) => `${path}?${query}`)).toEqual([
    `/admin/v1/operations/${operationId}?`,
    ...Array(3).fill(`/admin/v1/operations/${operationId}?wait=true`),
  ])
})

test('a page names the one after it', async () => {
  const link = '</v1/desktops?limit=1&cursor=x>; rel="next"'
  const { client } = await start(() => ({ headers: { link }, body: { desktops: [desktop()] } }))
  expect(await client.listDesktops({ limit: 1 })).toEqual({ desktops: [desktop()], next: 'x' })
})
